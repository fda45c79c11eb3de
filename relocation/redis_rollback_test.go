package relocation_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/relocation"
)

// RL-22: what is gone is unknown, to everybody.
func TestRedisStoreFlushed(t *testing.T) {
	srv := redistest.StartServer(t)
	client := srv.Client(t)
	s := newStore(client, "")
	for what, lose := range map[string]func(){
		"FLUSHALL":                    func() { client.FlushAll(t.Context()) },
		"a restart without its state": func() { srv.Restart(t) },
	} {
		o := created(t, s)
		o.commit(relocation.Update{In: 1, Messages: [][]byte{[]byte("1")}})
		lose()
		testkit.Eventually(t, "the server answers", testkit.Limit, func() bool { return client.Ping(t.Context()).Err() == nil })
		wantErr(t, what+": Renew", o.renew(), relocation.ErrUnknown)
		_, err := o.try(relocation.Update{In: 2})
		wantErr(t, what+": Commit", err, relocation.ErrUnknown)
		_, err = s.Append(t.Context(), sid, batchOf("b", "2"))
		wantErr(t, what+": Append", err, relocation.ErrUnknown)
		c := claimOf("b", "second")
		c.Serial, c.Attempt = 1, 1
		_, err = s.Attach(t.Context(), sid, c)
		wantErr(t, what+": Attach", err, relocation.ErrUnknown)
	}
}

// An outbox that is not whole has lost something: it was evicted, or damaged.
func TestRedisStoreOutboxLost(t *testing.T) {
	srv := redistest.Start(t)
	client, ctx := srv.Client(t), t.Context()
	out := srv.Prefix() + "{session}:out"
	for what, lose := range map[string]func(){
		"all":         func() { client.Del(ctx, out) },
		"the first":   func() { client.XDel(ctx, out, "0-1") },
		"the last":    func() { client.XDel(ctx, out, "0-3") },
		"one between": func() { client.XDel(ctx, out, "0-2") },
	} {
		client.Del(ctx, srv.Prefix()+"{session}", out)
		s := newStore(client, srv.Prefix())
		o := created(t, s)
		o.commit(relocation.Update{Messages: [][]byte{[]byte("1"), []byte("2"), []byte("3")}})
		lose()
		_, err := s.Read(ctx, sid, 0, 100)
		wantErr(t, what+" is lost: Read", err, relocation.ErrStateRegressed)
		_, err = o.try(relocation.Update{Acked: 1})
		wantErr(t, what+" is lost: Commit", err, relocation.ErrStateRegressed)
		_, err = s.Append(ctx, sid, batchOf("b", "4"))
		wantErr(t, what+" is lost: Append", err, relocation.ErrStateRegressed)
		c := claimOf("b", "second")
		c.Serial, c.Attempt, c.Received, c.Force = 1, 1, 3, true
		_, err = s.Attach(ctx, sid, c)
		wantErr(t, what+" is lost: Attach", err, relocation.ErrStateRegressed)
	}
}

// RL-46 and the promise that nothing is lost silently: a replica is promoted
// that has not seen the last changes. Whoever knows of them is told.
func TestRedisStoreRollback(t *testing.T) {
	// Each has a primary, and a replica that has not got what after does.
	for _, tt := range []struct {
		name  string
		after func(o *owner)
		check func(t *testing.T, o *owner, old relocation.Store)
	}{
		{"an owner whose update is lost", func(o *owner) { o.commit(relocation.Update{In: 5}) },
			func(t *testing.T, o *owner, _ relocation.Store) {
				_, err := o.try(relocation.Update{In: 6})
				wantErr(t, "Commit", err, relocation.ErrStateRegressed)
			}},
		{"a client that saw more acknowledged", func(o *owner) { o.commit(relocation.Update{In: 5}) },
			func(t *testing.T, _ *owner, old relocation.Store) {
				c := claimOf("b", "second")
				c.Serial, c.Attempt, c.Received, c.Acked, c.Force = 1, 1, 2, 5, true
				_, err := old.Attach(t.Context(), sid, c)
				wantErr(t, "Attach", err, relocation.ErrStateRegressed)
			}},
		{"a client that received more", func(o *owner) { o.commit(relocation.Update{Messages: [][]byte{[]byte("3")}}) },
			func(t *testing.T, _ *owner, old relocation.Store) {
				c := claimOf("b", "second")
				c.Serial, c.Attempt, c.Received, c.Force = 1, 1, 3, true
				_, err := old.Attach(t.Context(), sid, c)
				wantErr(t, "Attach", err, relocation.ErrStateRegressed)
			}},
		{"an appended message that was sent", func(o *owner) {
			if _, err := o.store.Append(o.t.Context(), sid, batchOf("lost", "3")); err != nil {
				o.t.Fatal(err)
			}
		}, func(t *testing.T, o *owner, old relocation.Store) {
			sent := relocation.Sent{Seq: 3, Batch: "lost"}
			_, err := o.try(relocation.Update{Sent: sent})
			wantErr(t, "Commit", err, relocation.ErrStateRegressed)
			if _, err := old.Append(t.Context(), sid, batchOf("new", "another 3")); err != nil {
				t.Fatal(err)
			}
			_, err = o.try(relocation.Update{Sent: sent})
			wantErr(t, "Commit after another took its number", err, relocation.ErrStateRegressed)
		}},
		{"an ownership that is lost", func(o *owner) {
			c := claimOf("a", "second")
			c.Serial, c.Attempt, c.Received = 1, 1, 2
			next, err := o.store.Attach(o.t.Context(), sid, c)
			if err != nil {
				o.t.Fatal(err)
			}
			*o = *ownerOf(o.t, o.store, c, next)
		}, func(t *testing.T, o *owner, old relocation.Store) {
			_, err := o.try(relocation.Update{})
			wantErr(t, "Commit", err, relocation.ErrStateRegressed)
			wantErr(t, "Renew", o.renew(), relocation.ErrStateRegressed)
			c := claimOf("b", "third") // the client has the token of generation 2
			c.Serial, c.Attempt, c.Received, c.Force = 2, 2, 2, true
			_, err = old.Attach(t.Context(), sid, c)
			wantErr(t, "Attach", err, relocation.ErrStateRegressed)
			// Another client, of before, takes the session, and its generation.
			c.Serial = 1
			next, err := old.Attach(t.Context(), sid, c)
			if err != nil || next.Generation != 2 {
				t.Fatalf("Attach = %+v, %v, want generation 2", next, err)
			}
			wantErr(t, "Renew of the same generation", o.renew(), relocation.ErrFenced)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			primary := redistest.StartServer(t)
			replica := redistest.StartReplica(t, primary)
			s := newStore(primary.Client(t), "")
			o := created(t, s)
			o.commit(relocation.Update{In: 3, Messages: [][]byte{[]byte("1"), []byte("2")}})
			replica.AwaitSync(t, primary)
			promoted := replica.Client(t)
			if err := promoted.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
				t.Fatal(err)
			}
			tt.after(o) // on the primary, which dies now
			old := newStore(promoted, "")
			o.store = old
			tt.check(t, o, old)
		})
	}
}

// Nothing was under way when the primary died: sessions go on.
func TestRedisStoreSentinel(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartSentinel(t)
	client := cluster.Client(t)
	s := newStore(client, "")
	o := created(t, s)
	o.commit(relocation.Update{In: 3, Messages: [][]byte{[]byte("1")}})
	cluster.Replica().AwaitSync(t, cluster.Primary())
	cluster.Primary().Kill()
	o.n++
	u := relocation.Update{In: 4, Messages: [][]byte{[]byte("2")}, Mark: "after", After: o.mark}
	testkit.Eventually(t, "an update is committed", 2*testkit.Limit, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit)
		defer cancel()
		_, err := s.Commit(ctx, o.lease, u)
		if err != nil && !transparency.Retryable(err) && !errors.Is(err, transparency.ErrUncertain) {
			t.Fatalf("Commit error = %v", err)
		}
		return err == nil
	})
	messages, err := s.Read(t.Context(), sid, 0, 100)
	if err != nil || fmt.Sprintf("%d %s", len(messages), messages[1].Data) != "2 2" {
		t.Errorf("Read = %v, %v, want both messages", messages, err)
	}
}
