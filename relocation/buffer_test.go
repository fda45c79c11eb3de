package relocation

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestOutbox compares the ring with a slice.
func TestOutbox(t *testing.T) {
	b := outbox{acked: 1 << 40, last: 1 << 40}
	var model []string
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 20000 {
		if rng.IntN(3000) == 0 {
			b.ack(b.last)
			model = nil
			if len(b.ring) > ringKept {
				t.Fatalf("an empty ring of %d is kept", len(b.ring))
			}
		}
		if n := rng.IntN(4); n == 0 && len(model) > 0 {
			n = rng.IntN(min(len(model), 5)) + 1
			b.ack(b.acked + uint64(n))
			model = model[n:]
		} else {
			text := fmt.Sprint(i)
			b.add([]byte(text), false)
			model = append(model, text)
		}
		bytes := 0
		for _, text := range model {
			bytes += len(text)
		}
		if b.count() != len(model) || b.bytes != bytes {
			t.Fatalf("%d messages of %d bytes, want %d of %d", b.count(), b.bytes, len(model), bytes)
		}
		for _, j := range []int{0, len(model) / 2, len(model) - 1} {
			if len(model) == 0 {
				break
			}
			if got := string(b.at(b.acked + uint64(j) + 1).data); got != model[j] {
				t.Fatalf("message %d is %q, want %q", j, got, model[j])
			}
		}
	}
}

// TestFifo compares the queue with a slice, and looks that it stays small.
func TestFifo(t *testing.T) {
	var q fifo[int]
	var model []int
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 100000 {
		if rng.IntN(2) == 0 && len(model) > 0 {
			if got := q.pop(); got != model[0] {
				t.Fatalf("pop = %d, want %d", got, model[0])
			}
			model = model[1:]
		} else if len(model) < 100 {
			q.push(i)
			model = append(model, i)
		}
		if q.empty() != (len(model) == 0) {
			t.Fatalf("empty = %v with %d items", q.empty(), len(model))
		}
		if cap(q.items) > 512 {
			t.Fatalf("room for %d, for %d items", cap(q.items), len(model))
		}
	}
}
