package relocation

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency/internal/redistest"
)

// An effectRig is a store, and a handler whose messages add up in a database.
type effectRig struct {
	store    Store
	effect   Handler
	position func(context.Context, string) (uint64, error)
	sum      func() int
}

// RL-01 with the helpers of this package: handlers fail before their effect and
// after it, instances come and go, and every effect is there once.
func TestAtomicEffects(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) effectRig{
		"SQL": func(t *testing.T) effectRig {
			db, sqlDB := openFakeDB(t)
			p := NewSQLPosition(sqlDB, nil)
			effect := func(ctx context.Context, s *Session, m Message) error {
				n, err := strconv.Atoi(string(m.Data))
				if err != nil {
					return err
				}
				return p.Do(ctx, s, m.Seq, func(tx *sql.Tx) error { return add(ctx, n)(tx) })
			}
			return effectRig{NewMemoryStore(nil), effect, p.Position, func() int { return db.committed().sum }}
		},
		"Redis": func(t *testing.T) effectRig {
			client := redistest.BubbleClient(t)
			p := NewRedisPosition(client, &RedisPositionOptions{Tag: "shop"})
			effect := func(ctx context.Context, s *Session, m Message) error {
				_, err := p.Run(ctx, s, m.Seq, addScript, []string{"{shop}:sum"}, []any{m.Data})
				return err
			}
			return effectRig{NewRedisStore(client, nil), effect, p.Position, func() int {
				n, _ := client.Get(t.Context(), "{shop}:sum").Int()
				return n
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rig := open(t)
				calls := 0 // one session, so one handler at a time
				handler := func(ctx context.Context, s *Session, m Message) error {
					calls++
					if calls%7 == 0 {
						return errors.New("before the effect")
					}
					if err := rig.effect(ctx, s, m); err != nil {
						return err
					}
					if calls%5 == 0 {
						return errors.New("after the effect")
					}
					return nil
				}
				network := NewNetwork()
				key := make([]byte, 32)
				hubs := map[string]*Hub{}
				start := func(addr string) {
					hub := NewHub(rig.store, handler, &HubOptions{Mode: Atomic, Position: rig.position, Keys: [][]byte{key}})
					stop := network.Listen(addr, func(ctx context.Context, tr Transport) { _ = hub.Serve(ctx, tr, Principal{ID: "ada"}) })
					t.Cleanup(stop)
					hubs[addr] = hub
				}
				start("a")
				start("b")
				conn, err := Dial(t.Context(), Addresses([]string{"a", "b"}), network, nil)
				if err != nil {
					t.Fatalf("Dial error = %v", err)
				}
				want := 0
				for n := range 60 {
					want += n
					if err := conn.Send(t.Context(), strconv.AppendInt(nil, int64(n), 10)); err != nil {
						t.Fatalf("Send error = %v", err)
					}
					if n == 20 || n == 40 {
						network.Cut(conn.Addr())
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := conn.Flush(ctx); err != nil {
					t.Errorf("Flush error = %v", err)
				}
				if got := rig.sum(); got != want {
					t.Errorf("the sum is %d, want %d; the handler was called %d times", got, want, calls)
				}
				if calls <= 60 {
					t.Errorf("the handler was called %d times, want more than there are messages", calls)
				}
				_ = conn.Close(ctx)
				for _, hub := range hubs {
					_ = hub.Close()
				}
			})
		})
	}
}
