package relocation_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/faultnet"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/relocation"
)

// RL-45: the script has run, and its reply is lost. The same call again has the
// effect and the result of one.
func TestRedisStoreRepliesLost(t *testing.T) {
	srv := redistest.Start(t)
	net := faultnet.New(t, srv.Addr())
	ctx := t.Context()
	opts := srv.Options()
	opts.Addr, opts.PoolSize = net.Addr(), 1
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	s := newStore(client, srv.Prefix())
	good := newStore(srv.Client(t), srv.Prefix())
	if _, err := good.Create(ctx, "another", terms, claimOf("a", "n")); err != nil {
		t.Fatal(err)
	}
	// again loses the reply of a call, and makes it again. The client dials at
	// times of its own choice, and then that is what the fault hits.
	again := func(what string, call func() (any, error)) any {
		t.Helper()
		for range 100 {
			_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error { return p.Ping(ctx).Err() })
			if errors.Join(err, client.Ping(ctx).Err()) != nil {
				continue
			}
			net.CutAfter(faultnet.ToClient, 0)
			_, err = call()
			net.CutAfter(faultnet.ToClient, -1)
			if err == nil || errors.Is(err, transparency.ErrUnavailable) {
				continue
			}
			wantErr(t, what+" whose reply is lost", err, transparency.ErrUncertain)
			result, err := call()
			for errors.Is(err, transparency.ErrUnavailable) {
				result, err = call()
			}
			if err != nil {
				t.Fatalf("%s again: error = %v", what, err)
			}
			return result
		}
		t.Fatalf("no reply of %s was lost", what)
		return nil
	}
	// Scripts are known to the server, so that the first call runs.
	warm := created(t, newStore(srv.Client(t), srv.Prefix()+"warm:"))
	_, _ = warm.try(relocation.Update{})
	_ = warm.renew()
	_, _ = warm.store.Append(ctx, sid, batchOf("b", "x"))
	_, _ = warm.store.Attach(ctx, sid, claimOf("a", "m"))
	_ = warm.store.Release(ctx, warm.lease, "")
	_ = warm.store.Delete(ctx, warm.lease)

	c := claimOf("a", "first")
	first := again("Create", func() (any, error) { return s.Create(ctx, sid, terms, c) }).(relocation.Snapshot)
	if want := (relocation.Snapshot{Generation: 1, Released: true, Mark: first.Mark}); first != want {
		t.Errorf("Create again = %+v, want %+v", first, want)
	}
	o := ownerOf(t, good, c, first)
	u := relocation.Update{In: 3, Messages: [][]byte{[]byte("1"), []byte("2")}, Mark: "mark", After: o.mark}
	if p := again("Commit", func() (any, error) { return s.Commit(ctx, o.lease, u) }); p != (relocation.Progress{Out: 2, First: 1}) {
		t.Errorf("Commit again = %+v, want messages 1 and 2", p)
	}
	b := batchOf("batch", "3", "4")
	if n := again("Append", func() (any, error) {
		n, err := s.Append(ctx, sid, b)
		b.Age = time.Second
		return n, err
	}); n != uint64(3) {
		t.Errorf("Append again = %v, want 3", n)
	}
	again("Renew", func() (any, error) { return nil, s.Renew(ctx, []relocation.Lease{o.lease})[0].Err })
	c = claimOf("b", "second")
	c.Serial, c.Attempt, c.Received, c.Acked, c.Force = 1, 1, 4, 3, true
	second := again("Attach", func() (any, error) { return s.Attach(ctx, sid, c) }).(relocation.Snapshot)
	if want := (relocation.Snapshot{Generation: 2, In: 3, Out: 4, Mark: second.Mark}); second != want {
		t.Errorf("Attach again = %+v, want %+v", second, want)
	}
	messages, err := good.Read(ctx, sid, 0, 1000)
	if err != nil || len(messages) != 4 {
		t.Errorf("Read = %d messages, %v, want 4", len(messages), err)
	}
	o = ownerOf(t, good, c, second)
	again("Release", func() (any, error) { return nil, s.Release(ctx, o.lease, "a") })
	again("Delete", func() (any, error) { return nil, s.Delete(ctx, o.lease) })
}

// A server that stops answering holds nobody up beyond his context, and little
// else.
func TestRedisStoreHung(t *testing.T) {
	srv := redistest.StartServer(t)
	client := srv.Client(t)
	s := newStore(client, "")
	o := created(t, s)
	before := runtime.NumGoroutine()
	srv.Pause()
	ops := []func(ctx context.Context) error{
		func(ctx context.Context) error { _, err := s.Attach(ctx, sid, claimOf("b", "n")); return err },
		func(ctx context.Context) error { _, err := s.Commit(ctx, o.lease, relocation.Update{}); return err },
		func(ctx context.Context) error { return s.Renew(ctx, []relocation.Lease{o.lease})[0].Err },
		func(ctx context.Context) error { _, err := s.Append(ctx, sid, batchOf("b", "1")); return err },
		func(ctx context.Context) error { _, err := s.Read(ctx, sid, 0, 1); return err },
		func(ctx context.Context) error { return s.Release(ctx, o.lease, "b") },
	}
	testkit.OnTime(t, 600, 100*time.Millisecond, func(ctx context.Context, i int) {
		// Or refused at once, when as many as may be are without an answer.
		if err := ops[i%len(ops)](ctx); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, transparency.ErrUnavailable) {
			t.Errorf("operation %d error = %v, want the context's", i%len(ops), err)
		}
	})
	testkit.Eventually(t, "the goroutines left are few", testkit.Limit, func() bool { return runtime.NumGoroutine()-before <= 70 })
	srv.Resume()
	testkit.Eventually(t, "no goroutine is left", testkit.Limit, func() bool { return runtime.NumGoroutine() <= before+2 })
	testkit.Eventually(t, "the store answers", testkit.Limit, func() bool {
		_, err := s.Read(t.Context(), sid, 0, 1)
		return err == nil
	})
}

// A user who may not do all that a script does leaves no key without a TTL.
func TestRedisStoreACL(t *testing.T) {
	srv := redistest.StartServer(t)
	admin, ctx := srv.Client(t), t.Context()
	as := func(t *testing.T, rules ...any) *relocation.RedisStore {
		t.Helper()
		args := append([]any{"ACL", "SETUSER", "limited", "reset", "on", ">pw", "allkeys", "allchannels", "+@all"}, rules...)
		if err := admin.Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
		opts := srv.Options()
		opts.Username, opts.Password = "limited", "pw"
		client := redis.NewClient(opts)
		t.Cleanup(func() { _ = client.Close() })
		admin.FlushAll(ctx)
		return newStore(client, "")
	}
	all := newStore(admin, "")
	for _, denied := range []string{"-pexpire", "-hset"} {
		s := as(t, denied)
		_, err := s.Create(ctx, sid, terms, claimOf("a", "n"))
		wantErr(t, denied+": Create", err, transparency.ErrDenied)
		wantTTLs(t, admin, "relocation:", denied+": Create", 0)
		created(t, all)
		_, err = s.Append(ctx, sid, batchOf("b", "1"))
		wantErr(t, denied+": Append", err, transparency.ErrDenied)
	}
	s := as(t, "-pexpire")
	o := created(t, all)
	o.store = s
	_, err := o.try(relocation.Update{Messages: [][]byte{[]byte("x")}})
	wantErr(t, "-pexpire: Commit", err, transparency.ErrDenied)
	wantTTLs(t, admin, "relocation:", "-pexpire: Commit", 1)
	wantErr(t, "-pexpire: Renew", o.renew(), transparency.ErrDenied)

	s = as(t, "-publish") // costs time only
	o = created(t, s)
	if _, err := s.Append(ctx, sid, batchOf("b", "1")); err != nil {
		t.Errorf("-publish: Append error = %v, want nil", err)
	}
	if err := s.Release(ctx, o.lease, "b"); err != nil {
		t.Errorf("-publish: Release error = %v, want nil", err)
	}
	opts := srv.Options()
	opts.Username, opts.Password = "limited", "wrong"
	client := redis.NewClient(opts)
	defer client.Close() //nolint:errcheck // nothing was done with it
	s = newStore(client, "")
	o.store = s
	wantErr(t, "wrong password: Renew", o.renew(), transparency.ErrDenied)
	_, err = o.try(relocation.Update{})
	wantErr(t, "wrong password: Commit", err, transparency.ErrDenied)
}

// A Redis that is out of memory takes nothing more, but lets go of what it has,
// and sessions live on.
func TestRedisStoreOutOfMemory(t *testing.T) {
	srv := redistest.StartServer(t)
	client, ctx := srv.Client(t), t.Context()
	s := newStore(client, "")
	o := created(t, s)
	o.commit(relocation.Update{Messages: [][]byte{make([]byte, 1000), make([]byte, 1000)}})
	if err := client.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Create(ctx, "another", terms, claimOf("a", "n"))
	wantErr(t, "Create", err, transparency.ErrUnavailable)
	_, err = s.Append(ctx, sid, batchOf("b", "3"))
	wantErr(t, "Append", err, transparency.ErrUnavailable)
	_, err = o.try(relocation.Update{In: 9, Messages: [][]byte{[]byte("3")}})
	wantErr(t, "Commit of a message", err, transparency.ErrUnavailable)
	if err := o.renew(); err != nil {
		t.Errorf("Renew error = %v, want nil", err)
	}
	o.commit(relocation.Update{In: 1, Acked: 1}) // on its mark: the refusal changed nothing
	if messages, err := s.Read(ctx, sid, 0, 10); err != nil || len(messages) != 1 {
		t.Errorf("Read = %d messages, %v, want 1", len(messages), err)
	}
	if err := s.Release(ctx, o.lease, ""); err != nil {
		t.Errorf("Release error = %v, want nil", err)
	}
	c := claimOf("b", "second")
	c.Serial, c.Attempt, c.Received = 1, 1, 2
	next, err := s.Attach(ctx, sid, c)
	if err != nil || next.In != 1 || next.Out != 2 {
		t.Fatalf("Attach = %+v, %v, want In 1, Out 2", next, err)
	}
	if err := s.Delete(ctx, ownerOf(t, s, c, next).lease); err != nil {
		t.Errorf("Delete error = %v, want nil", err)
	}
}

// One subscription hears it all, also after the connection broke.
func TestRedisStoreListensAgain(t *testing.T) {
	srv := redistest.Start(t)
	net := faultnet.New(t, srv.Addr())
	opts := srv.Options()
	opts.Addr = net.Addr()
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	s := newStore(client, srv.Prefix())
	good := newStore(srv.Client(t), srv.Prefix())
	created(t, good)
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan relocation.Event, 1000), make(chan error, 1)
	go func() {
		for ctx.Err() == nil { // as a Hub does
			_ = s.Listen(ctx, "a", func(e relocation.Event) { heard <- e })
		}
		ended <- ctx.Err()
	}()
	for i := range 3 {
		if e := testkit.Receive(t, "that events may have been missed", heard); e.Kind != relocation.Missed {
			t.Fatalf("heard %+v, want Missed", e)
		}
		if _, err := good.Append(ctx, sid, batchOf(fmt.Sprint(i), "x")); err != nil {
			t.Fatal(err)
		}
		if e := testkit.Receive(t, "what was appended", heard); e.Kind != relocation.Appended || e.Session != sid {
			t.Fatalf("heard %+v, want Appended", e)
		}
		// Anybody can publish there, and does no harm.
		for _, junk := range []string{"", "a", "a:", "a1:", "a-1 0:x", "z0 0:s", "y99999999999999999999:x"} {
			srv.Client(t).Publish(ctx, srv.Prefix()+"to:a", junk)
		}
		net.Reset()
	}
	cancel()
	testkit.Receive(t, "the end of Listen", ended)
}
