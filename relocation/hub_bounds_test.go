package relocation

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
)

// Messages without a byte are bounded too: while too many wait for the handler,
// nothing more is read.
func TestQueueBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		block := make(chan struct{})
		r.handle = func(context.Context, string, *Session, Message) error {
			<-block
			return nil
		}
		c := r.hello("a")
		const n, each = 3 * maxQueued, 100
		for c.sent < n {
			var frames []byte
			for range each {
				c.sent++
				frames = appendData(frames, c.sent, 0, nil)
			}
			c.write(frames)
		}
		synctest.Wait()
		s := a.session(c.session())
		s.mu.Lock()
		queued := len(s.queue)
		s.mu.Unlock()
		if queued < maxQueued-each || queued > maxQueued+each {
			t.Errorf("%d messages wait, want about %d", queued, maxQueued)
		}
		close(block)
		c.awaitAck(c.sent)
		if got := a.Stats().Handled; got != c.sent {
			t.Errorf("handled %d, want %d", got, c.sent)
		}
	})
}

// Openings under way are bounded.
func TestOpeningsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		a.mu.Lock()
		a.openings = maxOpenings
		a.mu.Unlock()
		c := r.dial("a")
		if rej := c.rejected(); rej.Code != rejectBusy || rej.Retry == 0 {
			t.Errorf("one opening too many gets %+v, want busy, with a time", rej)
		}
		c.wantClosed(CloseRetry)
	})
}

// Trouble of the store is not the client's: it is asked to come again.
func TestOpeningWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", nil)
		link := r.links["a"]
		link.set(func() { link.down = true })
		start := time.Now()
		if rej := (&fakeClient{r: r}).refused("a", testOpening()); rej.Code != rejectBusy {
			t.Errorf("got %+v, want busy", rej)
		}
		if took := time.Since(start); took > DefaultOpenTimeout+DefaultHandoffGrace {
			t.Errorf("the answer took %v", took)
		}
		c := r.dial("a")
		c.write(appendOpening(nil, testOpening()))
		time.AfterFunc(time.Second, func() { link.set(func() { link.down = false }) })
		c.opened(kindWelcome)
	})
}

// What has ended takes no memory after its time.
func TestMemoryBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemoryStore(&MemoryOptions{MaxSessions: 1000})
		terms := Terms{Resume: time.Minute, Tombstone: time.Minute, MaxMessages: 10, MaxBytes: 100}
		claim := Claim{Owner: "a", Lease: time.Second}
		for i := range 1000 {
			claim.Nonce = fmt.Sprint(i)
			if _, err := m.Create(t.Context(), fmt.Sprint(i), terms, claim); err != nil {
				t.Fatal(err)
			}
		}
		claim.Nonce = "one more"
		if _, err := m.Create(t.Context(), "one more", terms, claim); !errors.Is(err, transparency.ErrRejected) {
			t.Errorf("Create of one too many: error = %v, want ErrRejected", err)
		}
		time.Sleep(time.Minute + 2*time.Second)
		for i := range 1000 {
			// Most are over and remembered, and all but few soon forgotten.
			m.Read(t.Context(), fmt.Sprint(i), 0, 1)
		}
		time.Sleep(time.Minute)
		for range 260 {
			m.Read(t.Context(), "nobody's", 0, 1)
		}
		if n := len(m.table.sessions); n > 0 {
			t.Errorf("%d sessions are kept after their time", n)
		}
		if n := len(m.table.due); n > 0 {
			t.Errorf("%d are still to be looked at", n)
		}
	})
}

// The zero MemoryStore is ready, and a nil one says so.
func TestMemoryZero(t *testing.T) {
	var m MemoryStore
	claim := Claim{Owner: "a", Lease: time.Second, Nonce: "n"}
	if _, err := m.Create(t.Context(), "s", Terms{Resume: time.Second}, claim); err != nil {
		t.Errorf("Create error = %v", err)
	}
	var none *MemoryStore
	if _, err := none.Create(t.Context(), "s", Terms{}, claim); !isInvalid(err) {
		t.Errorf("Create of a nil store: error = %v, want ErrInvalid", err)
	}
	if err := none.Listen(t.Context(), "a", func(Event) {}); !isInvalid(err) {
		t.Errorf("Listen of a nil store: error = %v, want ErrInvalid", err)
	}
	if r := none.Renew(t.Context(), make([]Lease, 2)); len(r) != 2 || !isInvalid(r[1].Err) {
		t.Errorf("Renew of a nil store: %v, want ErrInvalid twice", r)
	}
}
