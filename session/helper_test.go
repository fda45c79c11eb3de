package session_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/session"
)

// redisClient is the set-up of the examples: a client of a Redis server, and a
// function that takes both away.
func redisClient() (client *redis.Client, done func()) { return redistest.Example() }

// inBubble runs fn in fake time on each form of store.
func inBubble(t *testing.T, fn func(t *testing.T, store session.SessionStore)) {
	t.Helper()
	for name, open := range map[string]func(*testing.T) session.SessionStore{"memory": openMemory, "miniredis": openMini} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { fn(t, open(t)) })
		})
	}
}

// A spy counts the calls of a store, and lets a test stand in for them.
type spy struct {
	session.SessionStore
	loads, saves, touches, others atomic.Int64

	save  func(ctx context.Context, id string, data []byte, v session.Version) (session.Record, error)
	touch func(ctx context.Context, id string) (session.Record, error)
	del   func(ctx context.Context, id string) error
}

func (s *spy) calls() int64 {
	return s.loads.Load() + s.saves.Load() + s.touches.Load() + s.others.Load()
}

func (s *spy) Create(ctx context.Context, id string, data []byte, lt session.Lifetimes) (session.Record, error) {
	s.others.Add(1)
	return s.SessionStore.Create(ctx, id, data, lt)
}

func (s *spy) Load(ctx context.Context, id string) (session.Record, error) {
	s.loads.Add(1)
	return s.SessionStore.Load(ctx, id)
}

func (s *spy) Save(ctx context.Context, id string, data []byte, v session.Version) (session.Record, error) {
	s.saves.Add(1)
	if s.save != nil {
		return s.save(ctx, id, data, v)
	}
	return s.SessionStore.Save(ctx, id, data, v)
}

func (s *spy) Touch(ctx context.Context, id string) (session.Record, error) {
	s.touches.Add(1)
	if s.touch != nil {
		return s.touch(ctx, id)
	}
	return s.SessionStore.Touch(ctx, id)
}

func (s *spy) Delete(ctx context.Context, id string) error {
	s.others.Add(1)
	if s.del != nil {
		return s.del(ctx, id)
	}
	return s.SessionStore.Delete(ctx, id)
}

type cart struct {
	User  string         `json:"user,omitempty"`
	Items []string       `json:"items,omitempty"`
	Count map[string]int `json:"count,omitempty"`
}

// must returns v, or ends the test.
func must[T any](t *testing.T) func(v T, err error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatalf("error = %v", err)
		}
		return v
	}
}

func idOf[T any](s *session.Session[T]) string { return s.Token().Reveal()[:24] }

func add(item string) func(*cart) error {
	return func(c *cart) error {
		c.Items = append(c.Items, item)
		return nil
	}
}

func text(v any) string { return fmt.Sprint(v) }
