package relocation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/relocation"
	"github.com/go-transparency/transparency/relocation/relocationtest"
)

func TestRedisStoreCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	t.Run("suite", func(t *testing.T) {
		relocationtest.RunStore(t, func(t *testing.T) func() relocation.Store {
			client, prefix := c.Client(t), t.Name()+":"
			return func() relocation.Store {
				return newStore(client, prefix)
			}
		})
	})
	// Every node forgets the scripts, between renewals that go to all of them.
	t.Run("scripts flushed", func(t *testing.T) {
		client, ctx := c.Client(t), t.Context()
		s := newStore(client, "flushed:")
		var leases []relocation.Lease
		for i := range 40 {
			lease := relocation.Lease{Session: fmt.Sprint(i), Owner: "a", Generation: 1, Duration: time.Minute}
			if _, err := s.Create(ctx, lease.Session, terms, claimOf("a", "first")); err != nil {
				t.Fatal(err)
			}
			leases = append(leases, lease)
		}
		for range 3 {
			err := client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
				return node.ScriptFlush(ctx).Err()
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range s.Renew(ctx, leases) {
				if r.Err != nil {
					t.Fatalf("renewal %d: %v", i, r.Err)
				}
			}
		}
	})
}

// Keys are documented, and none stays.
func TestRedisStoreKeys(t *testing.T) {
	srv := redistest.Start(t)
	client, ctx := srv.Client(t), t.Context()
	prefix := srv.Prefix()
	s := newStore(client, prefix)
	o := created(t, s)
	wantTTLs(t, client, prefix, "created", 1)
	if _, err := s.Append(ctx, sid, batchOf("b", "1", "2")); err != nil {
		t.Fatal(err)
	}
	wantTTLs(t, client, prefix, "appended", 2)
	for _, key := range []string{prefix + "{session}", prefix + "{session}:out"} {
		if client.Exists(ctx, key).Val() != 1 {
			t.Errorf("there is no key %q", key)
		}
	}
	o.commit(relocation.Update{Messages: [][]byte{[]byte("3")}, Acked: 1})
	if err := o.renew(); err != nil {
		t.Fatal(err)
	}
	wantTTLs(t, client, prefix, "renewed", 2)
	for _, m := range client.XRange(ctx, prefix+"{session}:out", "-", "+").Val() {
		if m.ID == "0-2" && (m.Values["b"] != "b" || m.Values["d"] != "2") {
			t.Errorf("message 2 is %v", m)
		}
	}
	if err := s.Release(ctx, o.lease, ""); err != nil {
		t.Fatal(err)
	}
	wantTTLs(t, client, prefix, "released", 2)
	c := claimOf("b", "second")
	c.Serial, c.Attempt, c.Received = 1, 1, 3
	next, err := s.Attach(ctx, sid, c)
	if err != nil {
		t.Fatal(err)
	}
	o = ownerOf(t, s, c, next)
	wantTTLs(t, client, prefix, "attached", 2)
	o.commit(relocation.Update{Acked: 3})
	wantTTLs(t, client, prefix, "all acknowledged", 1)
	o.commit(relocation.Update{Messages: [][]byte{[]byte("4")}})
	wantTTLs(t, client, prefix, "appended again", 2)
	if err := s.Delete(ctx, o.lease); err != nil {
		t.Fatal(err)
	}
	wantTTLs(t, client, prefix, "deleted", 1)
}

// What another hand has put there is no session, and stays.
func TestRedisStoreForeignKeys(t *testing.T) {
	srv := redistest.Start(t)
	client, ctx := srv.Client(t), t.Context()
	s := newStore(client, srv.Prefix())
	key := srv.Prefix() + "{session}"
	for what, put := range map[string]func(){
		"a string":            func() { client.Set(ctx, key, "mine", time.Minute) },
		"another hash":        func() { client.HSet(ctx, key, "mine", "1") },
		"a hash with a g":     func() { client.HSet(ctx, key, "g", "1") },
		"a generation alone":  func() { client.HSet(ctx, key, "g", "x", "x", "1", "p", "ada") },
		"terms of other form": func() { client.HSet(ctx, key, "g", "1", "x", "1", "p", "ada", "in", "0", "t", "mine") },
	} {
		client.Del(ctx, key)
		put()
		o := ownerOf(t, s, claimOf("a", "n"), relocation.Snapshot{Generation: 1})
		_, err := s.Create(ctx, sid, terms, claimOf("a", "n"))
		wantErr(t, what+": Create", err, transparency.ErrInvalid)
		_, err = s.Attach(ctx, sid, claimOf("a", "n"))
		wantErr(t, what+": Attach", err, transparency.ErrInvalid)
		_, err = o.try(relocation.Update{})
		wantErr(t, what+": Commit", err, transparency.ErrInvalid)
		wantErr(t, what+": Renew", o.renew(), transparency.ErrInvalid)
		_, err = s.Append(ctx, sid, batchOf("b", "1"))
		wantErr(t, what+": Append", err, transparency.ErrInvalid)
		_, err = s.Read(ctx, sid, 0, 1)
		wantErr(t, what+": Read", err, transparency.ErrInvalid)
		wantErr(t, what+": Release", s.Release(ctx, o.lease, ""), transparency.ErrInvalid)
		wantErr(t, what+": Delete", s.Delete(ctx, o.lease), transparency.ErrInvalid)
		if client.Exists(ctx, key).Val() != 1 {
			t.Errorf("%s is gone", what)
		}
	}
}

func TestRedisStoreZeroValues(t *testing.T) {
	var none *relocation.RedisStore
	var nilClient *redis.Client
	for what, s := range map[string]*relocation.RedisStore{
		"nil": none, "zero": new(relocation.RedisStore),
		"no client": relocation.NewRedisStore(nil, nil), "nil client": relocation.NewRedisStore(nilClient, nil),
	} {
		ctx := t.Context()
		o := ownerOf(t, s, claimOf("a", "n"), relocation.Snapshot{Generation: 1})
		_, err := s.Create(ctx, sid, terms, claimOf("a", "n"))
		wantErr(t, what+": Create", err, transparency.ErrInvalid)
		_, err = s.Attach(ctx, sid, claimOf("a", "n"))
		wantErr(t, what+": Attach", err, transparency.ErrInvalid)
		_, err = o.try(relocation.Update{})
		wantErr(t, what+": Commit", err, transparency.ErrInvalid)
		wantErr(t, what+": Renew", o.renew(), transparency.ErrInvalid)
		_, err = s.Append(ctx, sid, batchOf("b", "1"))
		wantErr(t, what+": Append", err, transparency.ErrInvalid)
		_, err = s.Read(ctx, sid, 0, 1)
		wantErr(t, what+": Read", err, transparency.ErrInvalid)
		wantErr(t, what+": Release", s.Release(ctx, o.lease, "b"), transparency.ErrInvalid)
		wantErr(t, what+": Delete", s.Delete(ctx, o.lease), transparency.ErrInvalid)
		wantErr(t, what+": Listen", s.Listen(ctx, "a", func(relocation.Event) {}), transparency.ErrInvalid)
		if text := fmt.Sprintf("%v %+v %#v", s, s, s); !strings.HasPrefix(text, "relocation.RedisStore(") {
			t.Errorf("%s: printed as %s", what, text)
		}
	}
}

// Absurd durations are cut to what Redis takes.
func TestRedisStoreAbsurdDurations(t *testing.T) {
	srv := redistest.Start(t)
	s := newStore(srv.Client(t), srv.Prefix())
	for i, d := range []time.Duration{-1, 0, 1, 1<<63 - 1, -1 << 63} {
		c := claimOf("a", "n")
		c.Lease = d
		id := fmt.Sprint(i)
		_, err := s.Create(t.Context(), id, relocation.Terms{Principal: "ada", Resume: d, Tombstone: d, MaxMessages: -1, MaxBytes: -1}, c)
		if err != nil {
			t.Errorf("Create with %v: error = %v, want nil", d, err)
		}
		err = s.Renew(t.Context(), []relocation.Lease{{Session: id, Owner: "a", Generation: 1, Duration: d}})[0].Err
		if err != nil && !errors.Is(err, relocation.ErrUnknown) && !errors.Is(err, relocation.ErrExpired) {
			t.Errorf("Renew with %v: error = %v", d, err)
		}
	}
}

// One call, one command; and all renewals one round trip.
func TestRedisStoreCommands(t *testing.T) {
	srv := redistest.StartServer(t)
	client, ctx := srv.Client(t), t.Context()
	s := newStore(client, "")
	o := created(t, s)
	calls := func(what string, want int64, do func()) {
		t.Helper()
		do() // and tell the server the script
		before := srv.Commands(t)["evalsha"]
		do()
		if got := srv.Commands(t)["evalsha"] - before; got != want {
			t.Errorf("%s took %d commands, want %d", what, got, want)
		}
	}
	n := 0
	calls("Commit", 1, func() { o.commit(relocation.Update{In: 1, Messages: [][]byte{[]byte("x"), []byte("y")}}) })
	calls("Append", 1, func() { n++; _, _ = s.Append(ctx, sid, batchOf(fmt.Sprint(n), "x")) })
	calls("Read", 1, func() { _, _ = s.Read(ctx, sid, 0, 100) })
	calls("Renew", 3, func() { s.Renew(ctx, []relocation.Lease{o.lease, o.lease, o.lease}) })
	calls("Release", 1, func() { _ = s.Release(ctx, o.lease, "") })
	calls("Delete", 1, func() { _ = s.Delete(ctx, o.lease) })
}
