package session_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/faultnet"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/session"
)

// until polls a condition of the outside world.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}

// behind returns a store whose connections lead through a proxy, and one that
// goes to the server directly.
func behind(t *testing.T, opts session.RedisOptions) (*faultnet.Proxy, *session.RedisStore, *session.RedisStore) {
	srv := redistest.Start(t)
	proxy := faultnet.New(t, srv.Addr())
	through := srv.Options()
	through.Addr = proxy.Addr()
	client := redis.NewClient(through)
	t.Cleanup(func() { _ = client.Close() })
	opts.Prefix = srv.Prefix()
	return proxy, session.NewRedisStore(client, &opts), session.NewRedisStore(srv.Client(t), &opts)
}

// TestHung: a server that stopped answering holds neither its callers nor
// more than 64 goroutines, whatever the operation.
func TestHung(t *testing.T) {
	const (
		callers = 1000
		timeout = 100 * time.Millisecond
		grace   = 100 * time.Millisecond * slowdown
	)
	for op, call := range calls {
		hung(t, op, callers, timeout, grace, func(ctx context.Context, store *session.RedisStore, _ *session.Manager[int], _ *session.Session[int]) error {
			return call(ctx, store, "id")
		})
	}
	type manager = *session.Manager[int]
	for op, call := range map[string]func(ctx context.Context, m manager, s *session.Session[int]) error{
		"New": func(ctx context.Context, m manager, _ *session.Session[int]) error {
			_, err := m.New(ctx, 1)
			return err
		},
		"Get": func(ctx context.Context, m manager, s *session.Session[int]) error {
			_, err := m.Get(ctx, s.Token().Reveal())
			return err
		},
		"Peek": func(ctx context.Context, m manager, s *session.Session[int]) error {
			_, err := m.Peek(ctx, s.Token().Reveal())
			return err
		},
		"Update": func(ctx context.Context, m manager, s *session.Session[int]) error {
			_, err := m.Update(ctx, s, func(n *int) error { *n++; return nil })
			return err
		},
		"Renew": func(ctx context.Context, m manager, s *session.Session[int]) error {
			_, err := m.Renew(ctx, s)
			return err
		},
		"Destroy": func(ctx context.Context, m manager, s *session.Session[int]) error { return m.Destroy(ctx, s) },
	} {
		hung(t, "Manager."+op, callers, timeout, grace, func(ctx context.Context, _ *session.RedisStore, m manager, s *session.Session[int]) error {
			return call(ctx, m, s)
		})
	}
}

func hung(t *testing.T, op string, callers int, timeout, grace time.Duration,
	call func(ctx context.Context, store *session.RedisStore, m *session.Manager[int], s *session.Session[int]) error,
) {
	t.Run(op, func(t *testing.T) {
		srv := redistest.StartServer(t)
		store := session.NewRedisStore(srv.Client(t), nil)
		m := session.NewManager[int](store, nil)
		s, err := m.New(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		before := runtime.NumGoroutine()
		srv.Pause()
		var (
			wg      sync.WaitGroup
			mu      sync.Mutex    // guards what follows
			slowest time.Duration // of the callers
			idle    time.Duration // of as many who only wait: what the machine takes
		)
		for range callers {
			wg.Go(func() {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				<-ctx.Done()
				took := time.Since(start)
				mu.Lock()
				defer mu.Unlock()
				idle = max(idle, took)
			})
			wg.Go(func() {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				err := call(ctx, store, m, s)
				took := time.Since(start)
				if !errors.Is(err, transparency.ErrUnavailable) && !errors.Is(err, transparency.ErrUncertain) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error = %v, want a class or the context's", err)
				}
				mu.Lock()
				defer mu.Unlock()
				slowest = max(slowest, took)
			})
		}
		wg.Wait()
		if slowest > idle+grace {
			t.Errorf("the slowest of %d callers took %v, want at most %v after the context's end, which took %v", callers, slowest, grace, idle)
		}
		left := runtime.NumGoroutine() - before
		for try := 0; left > 64 && try < 10; try++ {
			time.Sleep(time.Millisecond) // some that called Done are not quite gone
			left = runtime.NumGoroutine() - before
		}
		if left > 64 {
			t.Errorf("%d goroutines are left, want at most 64", left)
		}
		srv.Resume()
		until(t, "goroutines gone", func() bool { return runtime.NumGoroutine() <= before })
	})
}

// TestRedisAway (SE-20): a store that cannot be reached says so, and not that
// there is no session. When it is back, so is the session.
func TestRedisAway(t *testing.T) {
	proxy, store, _ := behind(t, session.RedisOptions{})
	m := session.NewManager[int](store, nil)
	ctx := t.Context()
	s, err := m.New(ctx, 7)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Refuse(true)
	proxy.Reset()
	for range 3 {
		if _, err := m.Get(ctx, s.Token().Reveal()); !errors.Is(err, transparency.ErrUnavailable) || errors.Is(err, session.ErrNotFound) {
			t.Errorf("Get error = %v, want ErrUnavailable", err)
		}
	}
	if _, err := store.Load(ctx, "other"); !transparency.Retryable(err) {
		t.Errorf("Load error = %v, want one that is retryable", err)
	}
	proxy.Refuse(false)
	until(t, "the session is back", func() bool {
		got, err := m.Get(ctx, s.Token().Reveal())
		return err == nil && got.Value == 7
	})
}

// TestRedisUncertain: a save whose answer is lost may have happened, and is
// said to. Here it has.
func TestRedisUncertain(t *testing.T) {
	proxy, store, direct := behind(t, session.RedisOptions{})
	ctx := t.Context()
	rec, err := store.Create(ctx, "id", []byte("old"), hour)
	if err != nil {
		t.Fatal(err)
	}
	rec, err = store.Save(ctx, "id", []byte("old"), rec.Version) // the script is known now
	if err != nil {
		t.Fatal(err)
	}
	proxy.CutAfter(faultnet.ToClient, 0)
	_, err = store.Save(ctx, "id", []byte("new"), rec.Version)
	if !errors.Is(err, transparency.ErrUncertain) || transparency.Retryable(err) {
		t.Errorf("Save error = %v, want ErrUncertain", err)
	}
	if got, err := direct.Load(ctx, "id"); err != nil || string(got.Data) != "new" {
		t.Errorf("Load = %q, %v, want %q", got.Data, err, "new")
	}
	proxy.CutAfter(faultnet.ToClient, 0)
	if _, err := store.Load(ctx, "id"); !errors.Is(err, transparency.ErrUnavailable) {
		t.Errorf("Load error = %v, want ErrUnavailable", err)
	}
}

// TestRedisTimeout: without a deadline of the caller's, a call ends by the
// store's.
func TestRedisTimeout(t *testing.T) {
	proxy, store, _ := behind(t, session.RedisOptions{Timeout: 50 * time.Millisecond})
	ctx := t.Context()
	if _, err := store.Create(ctx, "id", nil, hour); err != nil {
		t.Fatal(err)
	}
	proxy.Freeze(faultnet.ToClient)
	if _, err := store.Load(ctx, "id"); !errors.Is(err, transparency.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Load error = %v, want ErrUnavailable and no context error", err)
	}
	if _, err := store.Touch(ctx, "id"); !errors.Is(err, transparency.ErrUncertain) {
		t.Errorf("Touch error = %v, want ErrUncertain", err)
	}
	proxy.Thaw(faultnet.ToClient)
}

// TestRedisCallerGone (SE-19): a change that has begun reaches the server
// although its caller has gone, which is told that it may have.
func TestRedisCallerGone(t *testing.T) {
	for name, call := range map[string]func(context.Context, *session.RedisStore, session.Version) error{
		"Save": func(ctx context.Context, s *session.RedisStore, v session.Version) error {
			data := []byte("new")
			_, err := s.Save(ctx, "id", data, v)
			copy(data, "XXX") // it is the caller's again
			return err
		},
		"Replace": func(ctx context.Context, s *session.RedisStore, _ session.Version) error {
			data := []byte("new")
			_, err := s.Replace(ctx, "id", data, hour)
			copy(data, "XXX")
			return err
		},
		"Delete": func(ctx context.Context, s *session.RedisStore, _ session.Version) error {
			return s.Delete(ctx, "id")
		},
	} {
		t.Run(name, func(t *testing.T) {
			proxy, store, direct := behind(t, session.RedisOptions{})
			rec, err := direct.Create(t.Context(), "id", []byte("old"), hour)
			if err != nil {
				t.Fatal(err)
			}
			// The connection is still to be made when the caller leaves.
			proxy.Freeze(faultnet.Both)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer cancel()
			err = call(ctx, store, rec.Version)
			if !errors.Is(err, transparency.ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s error = %v, want ErrUncertain and the context's", name, err)
			}
			if got, err := direct.Load(t.Context(), "id"); err != nil || string(got.Data) != "old" {
				t.Errorf("Load = %q, %v, want it as it was", got.Data, err)
			}
			proxy.Thaw(faultnet.Both)
			until(t, name+" has reached the server", func() bool {
				got, err := direct.Load(t.Context(), "id")
				if err == nil && string(got.Data) != "old" && string(got.Data) != "new" {
					t.Fatalf("what reached the server is %q", got.Data)
				}
				return errors.Is(err, session.ErrNotFound) || string(got.Data) == "new"
			})
		})
	}
}

// TestManagerCallerGone (SE-19): a logout of a client that has hung up before
// reaches a server that is slow to answer.
func TestManagerCallerGone(t *testing.T) {
	proxy, store, direct := behind(t, session.RedisOptions{})
	m := session.NewManager[int](store, nil)
	s, err := m.New(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	proxy.Freeze(faultnet.Both)
	if err := m.Destroy(gone, s); !errors.Is(err, context.Canceled) || !errors.Is(err, transparency.ErrUncertain) {
		t.Errorf("Destroy error = %v, want Canceled and ErrUncertain", err)
	}
	proxy.Thaw(faultnet.Both)
	until(t, "the logout", func() bool {
		_, err := direct.Load(t.Context(), idOf(s))
		return errors.Is(err, session.ErrNotFound)
	})
}

// TestRedisCommands: every call is one command.
func TestRedisCommands(t *testing.T) {
	srv := redistest.StartServer(t)
	store := session.NewRedisStore(srv.Client(t), nil)
	m := session.NewManager[int](store, nil)
	ctx := t.Context()
	for op, call := range calls { // the scripts become known
		_ = call(ctx, store, op)
	}
	s, err := m.New(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	count := func(what string, want int64, fn func() error) {
		t.Helper()
		before := srv.Commands(t)
		if err := fn(); err != nil {
			t.Errorf("%s error = %v", what, err)
		}
		after := srv.Commands(t)
		sent := after["evalsha"] - before["evalsha"] + after["eval"] - before["eval"]
		if sent != want {
			t.Errorf("%s sent %d commands, want %d", what, sent, want)
		}
	}
	count("Load", 1, func() error { _, err := store.Load(ctx, "Create"); return err })
	count("Touch", 1, func() error { _, err := store.Touch(ctx, "Create"); return err })
	count("Get", 1, func() error { _, err := m.Get(ctx, s.Token().Reveal()); return err })
	count("Get and Update", 2, func() error {
		got, err := m.Get(ctx, s.Token().Reveal())
		if err != nil {
			return err
		}
		s, err = m.Update(ctx, got, func(n *int) error { *n++; return nil })
		return err
	})
	count("100 Gets", 100, func() error { // SE-10: and no touch
		for range 100 {
			if _, err := m.Get(ctx, s.Token().Reveal()); err != nil {
				return err
			}
		}
		return nil
	})
	count("Renew", 1, func() error { s, err = m.Renew(ctx, s); return err })
	count("SaveJSON", 1, func() error { return session.SaveJSON(ctx, store, "j", 1, time.Hour) })
	count("LoadJSON", 1, func() error { _, err := session.LoadJSON[int](ctx, store, "j"); return err })
	count("Destroy", 1, func() error { return m.Destroy(ctx, s) })

	// SE-6, SE-7: a malformed token costs nothing, a forged one what an
	// unknown one costs, and neither writes.
	s, err = m.New(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	text := s.Token().Reveal()
	writes := srv.Commands(t)["hset"]
	for what, forged := range map[string]string{
		"a wrong secret": text[:25] + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"an unknown id":  "AAAAAAAAAAAAAAAAAAAAAAAA" + text[24:],
	} {
		count(what, 1, func() error {
			_, err := m.Get(ctx, forged)
			if !errors.Is(err, session.ErrNotFound) {
				t.Errorf("Get with %s: error = %v, want ErrNotFound", what, err)
			}
			return nil
		})
	}
	if n := srv.Commands(t)["hset"] - writes; n != 0 {
		t.Errorf("forged tokens caused %d writes", n)
	}
}

// TestCluster (SE-4): everything works in a cluster, since a session is one
// key, and the keys spread over the nodes.
func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	client := cluster.Client(t)
	store := session.NewRedisStore(client, &session.RedisOptions{Prefix: cluster.Prefix()})
	m := session.NewManager[int](store, nil)
	ctx := t.Context()
	for i := range 30 {
		s, err := m.New(ctx, i)
		if err != nil {
			t.Fatal(err)
		}
		old := s.Token().Reveal()
		if s, err = m.Update(ctx, s, func(n *int) error { *n += 100; return nil }); err != nil {
			t.Fatal(err)
		}
		if s, err = m.Renew(ctx, s); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Get(ctx, old); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Get with the old token: error = %v, want ErrNotFound", err)
		}
		got, err := m.Get(ctx, s.Token().Reveal())
		if err != nil || got.Value != i+100 {
			t.Fatalf("Get = %v, %v, want %d", got, err, i+100)
		}
		if i%2 == 0 {
			if err := m.Destroy(ctx, s); err != nil {
				t.Error(err)
			}
		}
	}
	var nodes atomic.Int64
	err := client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		n, err := node.DBSize(ctx).Result()
		if n > 0 {
			nodes.Add(1)
		}
		return err
	})
	if err != nil || nodes.Load() < 2 {
		t.Errorf("the sessions are on %d nodes (%v), want more than one", nodes.Load(), err)
	}
}

// TestMoved (SE-22): an instance dies, and another, with a client of its own,
// serves the session with the same version and the same end. What their clocks
// say does not matter: all times are the server's.
func TestMoved(t *testing.T) {
	srv := redistest.Start(t)
	opts := &session.RedisOptions{Prefix: srv.Prefix()}
	ctx := t.Context()
	clientA := redis.NewClient(srv.Options())
	a := session.NewRedisStore(clientA, opts)
	made, err := a.Create(ctx, "user_42", []byte("cart"), hour)
	if err != nil {
		t.Fatal(err)
	}
	_ = clientA.Close()
	if _, err := a.Load(ctx, "user_42"); !errors.Is(err, transparency.ErrUnavailable) {
		t.Errorf("Load on A: error = %v, want ErrUnavailable", err)
	}
	b := session.NewRedisStore(srv.Client(t), opts)
	got, err := b.Load(ctx, "user_42")
	if err != nil || got.Version != made.Version || !got.Expires.Equal(made.Expires) || !got.Deadline.Equal(made.Deadline) {
		t.Errorf("Load on B = %+v, %v, want %+v", got, err, made)
	}
	server, err := srv.Client(t).Time(ctx).Result()
	if d := server.Sub(got.AsOf); err != nil || d < 0 || d > time.Minute {
		t.Errorf("as of %v, want the server's time, which is %v (%v)", got.AsOf, server, err)
	}
	if _, err := b.Save(ctx, "user_42", []byte("cart 2"), made.Version); err != nil {
		t.Errorf("Save on B with the version of A: error = %v", err)
	}
}

// TestManyWriters (SE-1): 16 writers of two instances make 800 increments.
func TestManyWriters(t *testing.T) {
	srv := redistest.Start(t)
	ctx := t.Context()
	var managers [2]*session.Manager[int]
	for i := range managers {
		store := session.NewRedisStore(srv.Client(t), &session.RedisOptions{Prefix: srv.Prefix()})
		managers[i] = session.NewManager[int](store, nil)
	}
	s, err := managers[0].New(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			m, mine := managers[i%2], s
			for j := range 50 {
				next, err := m.Update(ctx, mine, func(n *int) error { *n++; return nil })
				if err != nil {
					t.Errorf("writer %d, round %d: Update error = %v", i, j, err)
					return
				}
				mine = next
			}
		})
	}
	wg.Wait()
	if got, err := managers[1].Get(ctx, s.Token().Reveal()); err != nil || got.Value != 800 {
		t.Errorf("after 800 increments: %v, %v", got.Value, err)
	}
}
