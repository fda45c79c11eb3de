package session

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestMemorySweep (SE-24): what has expired, been replaced or been deleted
// leaves memory, without a goroutine and a little with each call.
func TestMemorySweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		store := NewMemoryStore(nil)
		m := store.driver.(*memory)
		size := func(want int) {
			t.Helper()
			if len(m.sessions) != want || len(m.due) != want {
				t.Errorf("%d sessions and %d in the schedule, want %d", len(m.sessions), len(m.due), want)
			}
		}
		lt := Lifetimes{Idle: time.Minute, Absolute: time.Hour}
		const many = 1000
		for i := range many {
			if _, err := store.Create(ctx, strconv.Itoa(i), nil, lt); err != nil {
				t.Fatal(err)
			}
		}
		size(many)
		for i := range many / 2 { // odd ones are replaced, even ones deleted
			_ = store.Delete(ctx, strconv.Itoa(2*i))
			_, _ = store.Replace(ctx, strconv.Itoa(2*i+1), nil, lt)
		}
		size(many / 2)
		time.Sleep(30 * time.Second)
		for i := range 100 {
			if _, err := store.Touch(ctx, strconv.Itoa(2*i+1)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second) // 400 are gone, 100 are not
		for range many / 4 {
			_, _ = store.Load(ctx, "absent")
		}
		size(100)
		time.Sleep(30 * time.Second)
		for range 100 {
			_, _ = store.Load(ctx, "absent")
		}
		size(0)
	})
}

// TestMemoryRace (SE-24) is for the race detector.
func TestMemoryRace(t *testing.T) {
	ctx := context.Background()
	store := NewMemoryStore(nil)
	lt := Lifetimes{Idle: 20 * time.Millisecond, Absolute: time.Hour}
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			id := strconv.Itoa(i % 50)
			rec, err := store.Create(ctx, id, []byte("data"), lt)
			if errors.Is(err, ErrExists) {
				rec, err = store.Load(ctx, id)
			}
			if err == nil {
				rec.Data[0] = 'x'
				rec, err = store.Save(ctx, id, rec.Data, rec.Version)
			}
			if err == nil {
				rec.Data[0] = 'y'
			}
			_, _ = store.Touch(ctx, id)
			if i%10 == 0 {
				_ = store.Delete(ctx, id)
			}
			if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrConflict) {
				t.Errorf("error = %v", err)
			}
		})
	}
	wg.Wait()
}
