package session_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/session"
)

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

// TestManyWriters (SE-1): 16 writers of two instances make 800 increments. One
// that is told ErrConflict, as can be in such a storm on a slow machine, was
// told that it has written nothing, and begins again.
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
			for j := 0; j < 50; {
				next, err := m.Update(ctx, mine, func(n *int) error { *n++; return nil })
				switch {
				case err == nil:
					mine = next
					j++
				case !errors.Is(err, session.ErrConflict):
					t.Errorf("writer %d, round %d: Update error = %v", i, j, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got, err := managers[1].Get(ctx, s.Token().Reveal()); err != nil || got.Value != 800 {
		t.Errorf("after 800 increments: %v, %v", got.Value, err)
	}
}
