package session_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/faultnet"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/session"
)

// until polls a condition of the outside world.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	testkit.Eventually(t, what, testkit.Limit, holds)
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
	proxy, store, direct := behind(t, session.RedisOptions{Timeout: 50 * time.Millisecond})
	ctx := t.Context()
	if _, err := direct.Create(ctx, "id", nil, hour); err != nil {
		t.Fatal(err)
	}
	until(t, "there is a connection", func() bool { _, err := store.Load(ctx, "id"); return err == nil })
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
			copy(data, "ZZZ") // it is the caller's again
			return err
		},
		"Replace": func(ctx context.Context, s *session.RedisStore, _ session.Version) error {
			data := []byte("new")
			_, err := s.Replace(ctx, "id", data, hour)
			copy(data, "ZZZ")
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
			// The caller leaves while the command waits for its connection.
			proxy.Freeze(faultnet.Both)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			got := make(chan error, 1)
			go func() { got <- call(ctx, store, rec.Version) }()
			until(t, "the command is on its way", func() bool { return proxy.Conns() > 0 })
			leave()
			err = testkit.Receive(t, name, got)
			if !errors.Is(err, transparency.ErrUncertain) || !errors.Is(err, context.Canceled) {
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

// A stub is a client that sends nothing.
type stub func(ctx context.Context, cmd redis.Cmder) error

func (s stub) Process(ctx context.Context, cmd redis.Cmder) error { return s(ctx, cmd) }

// TestRedisLeft (SE-19): of a command whose caller has gone, a change goes on
// for Timeout and no longer, and a look ends.
func TestRedisLeft(t *testing.T) {
	const endless = 24 * time.Hour
	for op, call := range calls {
		for timeout, want := range map[time.Duration]time.Duration{0: 2 * time.Second, time.Minute: time.Minute, -1: endless} {
			synctest.Test(t, func(t *testing.T) {
				if op == "Load" {
					want = 0
				}
				ctx, leave := context.WithCancel(t.Context())
				lasted := make(chan time.Duration, 1)
				store := session.NewRedisStore(stub(func(ctx context.Context, cmd redis.Cmder) error {
					start := time.Now()
					leave()
					select {
					case <-ctx.Done():
					case <-time.After(endless):
					}
					lasted <- time.Since(start)
					cmd.SetErr(context.DeadlineExceeded)
					return cmd.Err()
				}), &session.RedisOptions{Timeout: timeout})
				start := time.Now()
				if err := call(ctx, store, "id"); !errors.Is(err, context.Canceled) || time.Since(start) != 0 {
					t.Errorf("%s error = %v after %v, want Canceled at once", op, err, time.Since(start))
				}
				if got := <-lasted; got != want {
					t.Errorf("%s with Timeout %v went on for %v, want %v", op, timeout, got, want)
				}
			})
		}
	}
}

// TestRedisNotSent: a client that sends nothing, as a pipeline does until its
// Exec, is no success of any call, a logout above all.
func TestRedisNotSent(t *testing.T) {
	pipe := redistest.Start(t).Client(t).Pipeline()
	store := session.NewRedisStore(pipe, nil)
	for op, call := range calls {
		if err := call(t.Context(), store, "id"); !errors.Is(err, transparency.ErrInvalid) || transparency.Retryable(err) {
			t.Errorf("%s through a pipeline: error = %v, want ErrInvalid", op, err)
		}
	}
}

// TestRedisLogger: a client whose calls outlast contexts is logged, once.
func TestRedisLogger(t *testing.T) {
	for obeys, want := range map[bool]int{false: 1, true: 0} {
		var log bytes.Buffer
		client := redis.NewClient(&redis.Options{ContextTimeoutEnabled: obeys})
		session.NewRedisStore(client, &session.RedisOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if n := strings.Count(log.String(), "ContextTimeoutEnabled"); n != want {
			t.Errorf("with ContextTimeoutEnabled %v the log is %q", obeys, log.String())
		}
		_ = client.Close()
	}
}
