package relocationtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/relocation"
)

// What is kept for the client.
var outboxChecks = []storeCheck{
	{name: "read", fn: func(r *storeRun) {
		i := r.long().create("a")
		r.read(i.store, 0, all, 0)
		i.commit(relocation.Update{Messages: payloads("1", "22", "333")})
		r.append(i.store, "4444", "", "6")
		r.read(i.store, 0, all, 1, "1", "22", "333", "4444", "", "6")
		r.read(i.store, 2, all, 3, "333", "4444", "", "6")
		r.read(i.store, 6, all, 0)
		r.read(i.store, 9, all, 0)
		r.read(i.store, 0, 3, 1, "1", "22")
		r.read(i.store, 2, 7, 3, "333", "4444", "")
		for _, limit := range []int{-1, 0, 1, 2} {
			r.read(i.store, 2, limit, 3, "333")
		}
		i.commit(relocation.Update{Acked: 2})
		r.read(i.store, 0, all, 3, "333", "4444", "", "6")
		r.read(i.store, 1, 3, 3, "333")
		i.commit(relocation.Update{Acked: 6})
		r.read(i.store, 0, all, 0)
	}},
	{name: "read of many", fn: func(r *storeRun) {
		i := r.long().create("a")
		rnd := rand.New(rand.NewPCG(1, 2))
		var want []string
		for n := range 300 {
			want = append(want, strings.Repeat(fmt.Sprint(n, " "), rnd.IntN(50)*rnd.IntN(20)))
		}
		i.commit(relocation.Update{Messages: payloads(want...)})
		for after := 0; after < len(want); {
			limit, count, size := rnd.IntN(60000), 0, 0
			for _, m := range want[after:] {
				if size += len(m); count > 0 && size > limit {
					break
				}
				count++
			}
			r.read(i.store, uint64(after), limit, uint64(after+1), want[after:after+count]...)
			after += count
		}
	}},
	{name: "payloads of any bytes and sizes", fn: func(r *storeRun) {
		i := r.long().create("a")
		every := make([]byte, 256)
		for n := range every {
			every[n] = byte(n)
		}
		want := []string{"", "\x00", string(every), strings.Repeat("long ", 1<<20/5), "%d {x} \r\n"}
		i.commit(relocation.Update{Messages: payloads(want...)})
		first, err := i.store.Append(r.Context(), r.id, relocation.Batch{ID: "a; b % 1\x00", Messages: payloads(want...)})
		if err != nil || first != 6 {
			r.Errorf("Append = %d, %v, want 6", first, err)
		}
		r.read(i.store, 0, all, 1, append(want, want...)...)
	}},
	{name: "slices belong to whom they should", fn: func(r *storeRun) {
		i := r.long().create("a")
		p := []byte("mine")
		i.commit(relocation.Update{Messages: [][]byte{p}})
		if _, err := i.store.Append(r.Context(), r.id, relocation.Batch{ID: r.name(), Messages: [][]byte{p}}); err != nil {
			r.Fatalf("Append error = %v", err)
		}
		copy(p, "????")
		for _, m := range r.read(i.store, 0, all, 1, "mine", "mine") {
			copy(m.Data, "!!!!")
		}
		r.read(i.store, 0, all, 1, "mine", "mine")
	}},
	{name: "RL-45 a batch that comes again", fn: func(r *storeRun) {
		i := r.long().create("a")
		batch := relocation.Batch{ID: r.name(), Messages: payloads("1", "2")}
		for n := range 3 {
			first, err := i.store.Append(r.Context(), r.id, batch)
			if err != nil || first != 1 {
				r.Errorf("Append, time %d = %d, %v, want 1", n+1, first, err)
			}
			batch.Age = time.Millisecond
			r.append(i.store, "between")
		}
		r.read(i.store, 0, all, 1, "1", "2", "between", "between", "between")
		i.commit(relocation.Update{Acked: 5})
		if first, err := i.store.Append(r.Context(), r.id, batch); err != nil || first != 1 {
			r.Errorf("Append again of what is acknowledged = %d, %v, want 1", first, err)
		}
		if p, err := i.renew(); err != nil || p.Out != 5 {
			r.Errorf("Out = %+v, %v, want 5", p, err)
		}
	}},
	{name: "a batch that was never appended", fn: func(r *storeRun) {
		i := r.long().create("a")
		r.append(i.store, "1")
		first, err := i.store.Append(r.Context(), r.id, relocation.Batch{ID: r.name(), Age: time.Hour, Messages: payloads("2")})
		if err != nil || first != 2 {
			r.Errorf("Append of a batch whose first try was lost = %d, %v, want 2", first, err)
		}
	}},
	{name: "RL-45 a batch of long ago", fn: func(r *storeRun) {
		i := r.long().create("a")
		old := relocation.Batch{ID: r.name(), Messages: payloads("old")}
		if _, err := i.store.Append(r.Context(), r.id, old); err != nil {
			r.Fatalf("Append error = %v", err)
		}
		const many = 300
		for range many {
			r.append(i.store, "x")
		}
		old.Age = time.Hour // as if it had been tried before the session began
		for range 2 {
			first, err := i.store.Append(r.Context(), r.id, old)
			if err == nil && first != 1 {
				r.Errorf("Append of an old batch = %d, want 1 or ErrUncertain", first)
			} else if err != nil {
				r.wantErr("Append of an old batch", err, transparency.ErrUncertain)
			}
		}
		if p, err := i.renew(); err != nil || p.Out != many+1 {
			r.Errorf("Out = %+v, %v, want %d", p, err, many+1)
		}
	}},
	{name: "an empty batch", fn: func(r *storeRun) {
		i := r.long().create("a")
		_, err := i.store.Append(r.Context(), r.id, relocation.Batch{ID: r.name()})
		r.wantErr("Append of nothing", err, transparency.ErrInvalid)
	}},
	{name: "RL-46 many append while the session moves", fn: func(r *storeRun) {
		i := r.long().create("a")
		const writers, each = 6, 30
		var mu sync.Mutex // guards got
		got := map[uint64]string{}
		var wg sync.WaitGroup
		for w := range writers {
			s := r.connect()
			wg.Go(func() {
				for n := range each {
					a, b := fmt.Sprint(w, "-", n, "a"), fmt.Sprint(w, "-", n, "b")
					first, err := s.Append(r.Context(), r.id, relocation.Batch{ID: a, Messages: payloads(a, b)})
					if err != nil {
						r.Errorf("Append error = %v", err)
						return
					}
					mu.Lock()
					got[first], got[first+1] = a, b
					mu.Unlock()
				}
			})
		}
		last := i.first
		for range 10 {
			p, err := i.try(relocation.Update{Messages: payloads("reply")})
			if err != nil {
				r.Fatalf("Commit error = %v", err)
			}
			mu.Lock()
			got[p.First] = "reply"
			mu.Unlock()
			last.Out = p.Out
			i.release()
			last = r.reattach(last, &i)
		}
		wg.Wait()
		want := make([]string, writers*each*2+10)
		for n := range want {
			want[n] = got[uint64(n+1)]
		}
		r.read(i.store, 0, all, 1, want...)
		for w := range writers { // each writer's in its order
			var mine []string
			for _, m := range want {
				if strings.HasPrefix(m, fmt.Sprint(w, "-")) {
					mine = append(mine, m)
				}
			}
			for n := range mine {
				if m := fmt.Sprint(w, "-", n/2, string("ab"[n%2])); mine[n] != m {
					r.Fatalf("writer %d: message %d is %s, want %s", w, n, mine[n], m)
				}
			}
		}
	}},
	{name: "names of any bytes are apart", fn: func(r *storeRun) {
		r.long()
		names := []string{"s", "s:out", "s}:out", "a{b}c", "{", "}", "{}", "{}x", "}{", "%7B", "%", "a b", "\x00\xff\r\n", "ключ"}
		var all []*instance
		for _, r.id = range names {
			i := r.create("a")
			i.commit(relocation.Update{In: 1, Messages: payloads(r.id)})
			all = append(all, i)
		}
		for n, i := range all {
			r.id = names[n]
			r.read(i.store, 0, 1<<20, 1, r.id)
			if p, err := i.renew(); err != nil || p.Out != 1 {
				r.Errorf("Renew of %q = %+v, %v, want 1", r.id, p, err)
			}
			if err := i.store.Delete(r.Context(), i.lease); err != nil {
				r.Errorf("Delete of %q error = %v", r.id, err)
			}
		}
	}},
	{name: "names are in no error", fn: func(r *storeRun) {
		r.id = "secret-session"
		r.long().terms.Principal = "secret-principal"
		s := r.connect()
		i := r.create("a")
		var errs []error
		note := func(_ any, err error) { errs = append(errs, err) }
		note(s.Create(r.Context(), r.id, r.terms, r.claim("b")))
		note(s.Attach(r.Context(), r.id, r.claim("b")))
		c := r.claim("b")
		c.Attempt, c.Received = 1, 9
		note(s.Attach(r.Context(), r.id, c))
		c.Received, c.Serial = 0, 1
		note(s.Attach(r.Context(), r.id, c))
		note(i.store.Commit(r.Context(), i.lease, relocation.Update{After: "secret-mark", Mark: "secret-mark 2"}))
		i.lease.Generation = 0
		note(nil, s.Release(r.Context(), i.lease, ""))
		note(nil, s.Delete(r.Context(), i.lease))
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		note(s.Read(ctx, r.id, 0, all))
		for _, err := range errs {
			for _, text := range []string{fmt.Sprint(err), fmt.Sprintf("%+v %#v", err, err)} {
				if err == nil || strings.Contains(text, "secret") {
					r.Errorf("error %q, want one without names", text)
				}
			}
		}
	}},
	{name: "an ended context changes nothing", fn: func(r *storeRun) {
		i := r.long().create("a")
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		if _, err := i.store.Commit(ctx, i.lease, relocation.Update{In: 1, Mark: r.name(), After: i.mark}); err == nil {
			r.Errorf("Commit with an ended context was done")
		}
		if _, err := i.store.Append(ctx, r.id, relocation.Batch{ID: r.name(), Messages: payloads("x")}); err == nil {
			r.Errorf("Append with an ended context was done")
		}
		if _, err := i.store.Attach(ctx, r.id, forced(r.claim("b"))); err == nil {
			r.Errorf("Attach with an ended context was done")
		}
		if err := i.store.Release(ctx, i.lease, ""); err == nil {
			r.Errorf("Release with an ended context was done")
		}
		if err := i.store.Delete(ctx, i.lease); err == nil {
			r.Errorf("Delete with an ended context was done")
		}
		if results := i.store.Renew(ctx, []relocation.Lease{i.lease}); len(results) != 1 || results[0].Err == nil {
			r.Errorf("Renew with an ended context = %v, want an error", results)
		}
		if _, err := i.store.Read(ctx, r.id, 0, all); err == nil {
			r.Errorf("Read with an ended context was done")
		}
		if p := i.commit(relocation.Update{}); p.Out != 0 {
			r.Errorf("Out = %d, want 0", p.Out)
		}
	}},
}

// reattach attaches what was released, and returns the new snapshot.
func (r *storeRun) reattach(last relocation.Snapshot, i **instance) relocation.Snapshot {
	r.Helper()
	*i = r.attach(r.claim("a"), last)
	return (*i).first
}
