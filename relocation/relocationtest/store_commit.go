package relocationtest

import (
	"fmt"
	"math"

	"github.com/go-transparency/transparency/relocation"
)

// What an owner changes.
var commitChecks = []storeCheck{
	{name: "numbers are raised", fn: func(r *storeRun) {
		i := r.long().create("a")
		p := i.commit(relocation.Update{In: 5, Messages: payloads("1", "2", "3")})
		if p != (relocation.Progress{Out: 3, First: 1}) {
			r.Errorf("Commit = %+v, want messages 1 to 3", p)
		}
		if p := i.commit(relocation.Update{In: 4, Acked: 2}); p.Out != 3 {
			r.Errorf("Commit = %+v, want Out 3", p)
		}
		i.commit(relocation.Update{Acked: 1})
		got := i.state().first
		if got.In != 5 || got.Out != 3 || got.Acked != 2 {
			r.Errorf("the store has %+v, want 5 in, 3 out, 2 acknowledged", got)
		}
	}},
	{name: "RL-45 an update that comes again", fn: func(r *storeRun) {
		i := r.long().create("a")
		u := relocation.Update{In: 1, Messages: payloads("1", "2"), Mark: r.name(), After: i.mark}
		first, err := i.store.Commit(r.Context(), i.lease, u)
		if err != nil {
			r.Fatalf("Commit error = %v", err)
		}
		r.append(i.store, "3")
		again, err := i.store.Commit(r.Context(), i.lease, u)
		if err != nil || again.First != first.First || again.Out != 3 {
			r.Errorf("Commit again = %+v, %v, want First %d, Out 3", again, err, first.First)
		}
		i.mark = u.Mark
		i.commit(relocation.Update{In: 2, Messages: payloads("4")})
		r.read(i.store, 0, all, 1, "1", "2", "3", "4")
	}},
	{name: "RL-46 an update after one that the store has not", fn: func(r *storeRun) {
		i := r.long().create("a")
		i.commit(relocation.Update{In: 1})
		lost := *i
		lost.mark = "of an update that the store lost"
		_, err := lost.try(relocation.Update{In: 9, Messages: payloads("x")})
		r.wantErr("Commit after a lost update", err, relocation.ErrStateRegressed)
		if got := i.commit(relocation.Update{}); got.Out != 0 {
			r.Errorf("Out = %d after a refusal, want 0", got.Out)
		}
		if got := i.state().first; got.In != 1 {
			r.Errorf("In = %d after a refusal, want 1", got.In)
		}
	}},
	{name: "acknowledged beyond what there is", fn: func(r *storeRun) {
		i := r.long().create("a")
		i.commit(relocation.Update{Messages: payloads("1", "2")})
		_, err := i.try(relocation.Update{In: 1, Acked: 3})
		r.wantErr("Commit of 3 acknowledged, of 2", err, relocation.ErrStateRegressed)
		// Nor what comes in the same update: it cannot have been seen.
		_, err = i.try(relocation.Update{Acked: 3, Messages: payloads("3")})
		r.wantErr("Commit of 3 acknowledged, of 2 and one new", err, relocation.ErrStateRegressed)
		r.read(i.store, 0, all, 1, "1", "2")
	}},
	{name: "what was sent is looked for", fn: func(r *storeRun) {
		i := r.long().create("a")
		i.commit(relocation.Update{Messages: payloads("1")})
		own := i.mark
		batch := r.name()
		if _, err := i.store.Append(r.Context(), r.id, relocation.Batch{ID: batch, Messages: payloads("2", "3")}); err != nil {
			r.Fatalf("Append error = %v", err)
		}
		for _, m := range r.read(i.store, 0, all, 1, "1", "2", "3") {
			if want := map[bool]string{true: own, false: batch}[m.Seq == 1]; m.Batch != want {
				r.Errorf("message %d is of batch %q, want %q", m.Seq, m.Batch, want)
			}
		}
		for _, sent := range []relocation.Sent{{Seq: 1, Batch: batch}, {Seq: 2, Batch: own}, {Seq: 3, Batch: ""}, {Seq: 4, Batch: batch}} {
			if _, err := i.try(relocation.Update{Sent: sent}); err == nil {
				r.Errorf("Commit of sent %+v was accepted", sent)
			} else {
				r.wantErr(fmt.Sprintf("Commit of sent %+v", sent), err, relocation.ErrStateRegressed)
			}
		}
		i.commit(relocation.Update{Sent: relocation.Sent{Seq: 1, Batch: own}})
		i.commit(relocation.Update{Sent: relocation.Sent{Seq: 3, Batch: batch}, Acked: 2})
		i.commit(relocation.Update{Sent: relocation.Sent{Seq: 2, Batch: "whatever is gone"}, Acked: 3})
	}},
	{name: "the outbox is bounded", fn: func(r *storeRun) {
		r.long().terms.MaxMessages, r.terms.MaxBytes = 3, 10
		i := r.create("a")
		i.commit(relocation.Update{Messages: payloads("a longer message than there is room for")})
		for _, more := range [][]string{{""}, {"x"}} {
			_, err := i.try(relocation.Update{In: 1, Messages: payloads(more...)})
			r.wantErr("Commit beyond the bytes", err, relocation.ErrBufferFull)
			_, err = i.store.Append(r.Context(), r.id, relocation.Batch{ID: r.name(), Messages: payloads(more...)})
			r.wantErr("Append beyond the bytes", err, relocation.ErrBufferFull)
		}
		_, err := i.try(relocation.Update{Acked: 1, Messages: payloads("two", "of which the second is too long")})
		r.wantErr("Commit of several beyond the bytes", err, relocation.ErrBufferFull)
		// The refusal changed nothing, and what an update frees it can use.
		if p := i.commit(relocation.Update{Acked: 1, Messages: payloads("123", "456")}); p.First != 2 {
			r.Errorf("Commit = %+v, want First 2", p)
		}
		r.append(i.store, "7890")
		_, err = i.try(relocation.Update{Messages: payloads("")})
		r.wantErr("Commit beyond the messages", err, relocation.ErrBufferFull)
		i.commit(relocation.Update{Acked: 2, Messages: payloads("abc")})
		r.read(i.store, 0, all, 3, "456", "7890", "abc")
		if got := i.state().first; got.In != 0 {
			r.Errorf("In = %d after refusals, want 0", got.In)
		}
	}},
	{name: "RL-43 numbers of any size", fn: func(r *storeRun) {
		for _, from := range []uint64{
			0, 98, 1e14 - 2, 1e15 - 2, 1<<53 - 2, 1<<53 - 1, 1e18 - 2, math.MaxInt64 - 9,
		} {
			r.numbers(from)
		}
	}},
	{name: "RL-43 the last number", fn: func(r *storeRun) {
		r.long().terms.In, r.terms.Out = math.MaxInt64-1, math.MaxInt64-1 // 2^63-2
		i := r.create("a")
		_, err := i.try(relocation.Update{Messages: payloads("1", "2")})
		r.wantErr("Commit of two more than there are", err, relocation.ErrSequenceExhausted)
		if first := r.append(i.store, "the last"); first != math.MaxInt64 {
			r.Errorf("Append = %d, want %d", first, uint64(math.MaxInt64))
		}
		_, err = i.store.Append(r.Context(), r.id, relocation.Batch{ID: r.name(), Messages: payloads("one more")})
		r.wantErr("Append after the last", err, relocation.ErrSequenceExhausted)
		i.commit(relocation.Update{In: math.MaxInt64})
		r.read(i.store, math.MaxInt64-1, all, math.MaxInt64, "the last")
		if got := i.state().first; got.In != math.MaxInt64 || got.Out != math.MaxInt64 {
			r.Errorf("the store has %+v, want %d both ways", got, uint64(math.MaxInt64))
		}
		next := r.attach(forced(r.claim("b")), relocation.Snapshot{Generation: 2, Out: math.MaxInt64})
		next.commit(relocation.Update{Acked: math.MaxInt64})
		r.read(next.store, 0, all, 0)
	}},
}

func forced(c relocation.Claim) relocation.Claim {
	c.Force = true
	return c
}

// numbers counts on from a number, in both directions, and back to a fresh
// store.
func (r *storeRun) numbers(from uint64) {
	r.Helper()
	r.long().terms.In, r.terms.Out = from, from
	r.id = fmt.Sprint("session from ", from)
	i := r.create("a")
	for n := from + 1; n <= from+4; n++ {
		if p := i.commit(relocation.Update{In: n, Messages: payloads("x")}); p != (relocation.Progress{Out: n, First: n}) {
			r.Fatalf("from %d: Commit = %+v, want %d", from, p, n)
		}
	}
	if first := r.append(i.store, "y", "z"); first != from+5 {
		r.Errorf("from %d: Append = %d, want %d", from, first, from+5)
	}
	i.commit(relocation.Update{In: from + 3, Acked: from + 1})
	r.read(i.store, from, all, from+2, "x", "x", "x", "y", "z")
	i.commit(relocation.Update{In: from + 5, Acked: from + 4, Sent: relocation.Sent{}})
	r.read(i.store, from+2, all, from+5, "y", "z")
	r.read(i.store, from+5, all, from+6, "z")
	got := i.state().first
	if got.In != from+5 || got.Out != from+6 || got.Acked != from+4 {
		r.Errorf("from %d: the store has %+v, want In %d, Out %d, Acked %d", from, got, from+5, from+6, from+4)
	}
	c := forced(r.claim("b"))
	c.Acked = from + 6
	c.Serial, c.Attempt, c.Received = 2, 9, from+6
	_, err := i.store.Attach(r.Context(), r.id, c)
	r.wantErr("Attach with one more acknowledged", err, relocation.ErrStateRegressed)
	c.Acked = from + 5
	last := r.attach(c, relocation.Snapshot{})
	if err := last.store.Delete(r.Context(), last.lease); err != nil {
		r.Fatalf("Delete error = %v", err)
	}
	r.wantEnded(last.store, from+5)
}
