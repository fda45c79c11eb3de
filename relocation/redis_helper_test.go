package relocation_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/relocation"
)

const sid = "session"

var terms = relocation.Terms{
	Principal: "ada", Resume: time.Minute, Tombstone: time.Hour, MaxMessages: 100, MaxBytes: 1 << 20,
}

// newStore returns a store whose answers are waited for: the machine may be busy.
func newStore(client relocation.RedisClient, prefix string) *relocation.RedisStore {
	return relocation.NewRedisStore(client, &relocation.RedisOptions{Prefix: prefix, Timeout: testkit.Limit})
}

// An owner owns the session sid.
type owner struct {
	t     *testing.T
	store relocation.Store
	lease relocation.Lease
	mark  string
	n     int
}

func claimOf(owner, nonce string) relocation.Claim {
	return relocation.Claim{Owner: owner, Lease: 10 * time.Second, Nonce: nonce, Principal: "ada"}
}

func ownerOf(t *testing.T, s relocation.Store, c relocation.Claim, first relocation.Snapshot) *owner {
	return &owner{t: t, store: s, mark: first.Mark, lease: relocation.Lease{
		Session: sid, Owner: c.Owner, Generation: first.Generation, Duration: c.Lease,
	}}
}

func created(t *testing.T, s relocation.Store) *owner {
	t.Helper()
	c := claimOf("a", "first")
	first, err := s.Create(t.Context(), sid, terms, c)
	if err != nil {
		t.Fatalf("Create error = %v", err)
	}
	return ownerOf(t, s, c, first)
}

// try makes an update, and remembers it when it is done.
func (o *owner) try(u relocation.Update) (relocation.Progress, error) {
	o.n++
	u.Mark, u.After = fmt.Sprint(o.lease.Owner, " ", o.n), o.mark
	p, err := o.store.Commit(o.t.Context(), o.lease, u)
	if err == nil {
		o.mark = u.Mark
	}
	return p, err
}

func (o *owner) commit(u relocation.Update) {
	o.t.Helper()
	if _, err := o.try(u); err != nil {
		o.t.Fatalf("Commit error = %v", err)
	}
}

func (o *owner) renew() error {
	return o.store.Renew(o.t.Context(), []relocation.Lease{o.lease})[0].Err
}

func batchOf(id string, messages ...string) relocation.Batch {
	b := relocation.Batch{ID: id}
	for _, m := range messages {
		b.Messages = append(b.Messages, []byte(m))
	}
	return b
}

func wantErr(t *testing.T, op string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s error = %v, want %q", op, err, want)
	}
}

// wantTTLs checks that no key under prefix stays for longer than it should.
func wantTTLs(t *testing.T, client *redis.Client, prefix, when string, keys int) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	names := client.Keys(ctx, prefix+"*").Val()
	if len(names) != keys {
		t.Errorf("%s: the keys are %q, want %d", when, names, keys)
	}
	most := 10*time.Second + terms.Resume + terms.Tombstone
	for _, name := range names {
		if ttl := client.PTTL(ctx, name).Val(); ttl <= 0 || ttl > most {
			t.Errorf("%s: the TTL of %q is %v, want up to %v", when, name, ttl, most)
		}
	}
}
