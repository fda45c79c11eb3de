package relocation

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
)

// A store that denies something is the server's trouble: the client is not
// refused for it, and comes again. A panic of a function of the user is the
// same, and ends neither the process nor the Hub.
func TestServersTroubleIsNotTheClients(t *testing.T) {
	for _, test := range []struct {
		name  string
		opts  HubOptions
		store func(Store) Store
	}{
		{"the store denies", HubOptions{}, func(s Store) Store { return denyingStore{s} }},
		{"Authenticate panics", HubOptions{
			Authenticate: func(context.Context, Principal, []byte) (Principal, error) { panic("no") },
		}, nil},
		{"Position panics", HubOptions{
			Mode: Atomic, Position: func(context.Context, string) (uint64, error) { panic("no") },
		}, nil},
		{"Position is denied", HubOptions{
			Mode: Atomic, Position: func(context.Context, string) (uint64, error) { return 0, transparency.ErrDenied },
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHubRig(t)
				r.start("a", nil)
				c := r.hello("a")
				if test.store != nil {
					r.broken = test.store(r.store)
				}
				b := r.start("b", &test.opts)
				if rej := c.refused("b", c.resumption(1, 0, 0)); rej.Code != rejectBusy || rej.Retry > 2*time.Second {
					t.Errorf("got %+v, want busy", rej)
				}
				if got := b.Stats().Openings; got != 0 {
					t.Errorf("%d openings under way, want 0", got)
				}
				c.resume("a", 2, 0, 0)
			})
		})
	}
}

type denyingStore struct{ Store }

func (denyingStore) Attach(context.Context, string, Claim) (Snapshot, error) {
	return Snapshot{}, fmt.Errorf("%w: no permission", transparency.ErrDenied)
}

// What a client pads its messages with is not kept with them: a session holds
// the window of it, and no more.
func TestPaddingIsNotKept(t *testing.T) {
	r := newHubRig(t)
	r.start("a", &HubOptions{Ping: time.Hour})
	begun, stop := make(chan struct{}), make(chan struct{})
	r.handle = func(_ context.Context, _ string, _ *Session, m Message) error {
		if m.Seq == 1 {
			close(begun)
			<-stop
		}
		return nil
	}
	defer close(stop)
	c := r.hello("a")
	const messages = 64
	padding := appendFrame(nil, optional|1, make([]byte, 1<<20))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range messages {
		c.write(append(appendData(nil, uint64(i+1), 0, []byte("x")), padding...))
	}
	c.write(appendNumber(nil, kindPing, 1)) // when it is answered, all has come
	<-begun
	if k, _ := c.frame(); k != kindPong {
		t.Fatalf("got frame 0x%02x, want PONG", byte(k))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > messages<<20/2 {
		t.Errorf("%d bytes of payload hold %d bytes", messages, grown)
	}
}

// A stranger has no more than an opening to send; a client has its messages.
func TestReadLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		h := NewHub(r.store, func(context.Context, *Session, Message) error { return nil }, &HubOptions{MaxMessage: 1 << 22})
		defer h.Close()
		limits := make(chan int64, 2)
		stop := r.net.Listen("a", func(ctx context.Context, tr Transport) {
			_ = h.Serve(ctx, limitedTransport{tr, limits}, Principal{})
		})
		defer stop()
		r.dial("a")
		if got := <-limits; got < maxCredentials+maxToken || got > 128<<10 {
			t.Errorf("a stranger may send %d bytes", got)
		}
		r.hello("a")
		<-limits
		if got := <-limits; got < 1<<22 {
			t.Errorf("a client may send %d bytes", got)
		}
	})
}

type limitedTransport struct {
	Transport
	limits chan int64
}

func (t limitedTransport) SetReadLimit(n int64) { t.limits <- n }

// A client that leaves in the moment in which its session is wanted elsewhere
// breaks nothing, though the hub did not take what it sent last.
func TestByeMeetsYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		a := r.start("a", nil)
		r.handle = func(context.Context, string, *Session, Message) error {
			time.Sleep(time.Second)
			return nil
		}
		c := r.hello("a")
		c.send(1)
		synctest.Wait()
		a.session(c.session()).yield("b", 0)
		c.send(2)
		c.write(appendNumber(nil, kindBye, 2))
		c.awaitAck(1)
		if rej := c.rejected(); rej.Code != rejectSuperseded {
			t.Errorf("got %+v, want superseded", rej)
		}
		if n := a.Stats().ProtocolErrors; n != 0 {
			t.Errorf("%d protocol errors, want 0", n)
		}
	})
}

// Clients that are silent, or whose credentials have expired, are dropped in
// time however long a lease is.
func TestLongLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		r.start("a", &HubOptions{Lease: time.Hour, Authenticate: func(context.Context, Principal, []byte) (Principal, error) {
			return Principal{Expires: time.Now().Add(DefaultPing)}, nil
		}})
		r.start("b", &HubOptions{Lease: time.Hour})
		for hub, after := range map[string]time.Duration{"a": DefaultPing, "b": DefaultPing + 2*DefaultSilence} {
			start := time.Now()
			r.hello(hub).wantClosed(CloseRetry)
			if took := time.Since(start); took < after || took > after+2*time.Second {
				t.Errorf("%s dropped a client after %v, want %v", hub, took, after)
			}
		}
	})
}

// A client that moves on at once, before it has sent again what may have been
// handled, leaves the doubt to the next instance.
func TestDoubtOutlastsBye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		for _, name := range []string{"a", "b", "c"} {
			r.start(name, nil)
		}
		c := r.hello("a")
		r.links["a"].set(func() { r.links["a"].down = true })
		c.send(1)
		synctest.Wait()
		r.kill("a")
		next := c.resume("b", 1, 0, 0)
		next.write(appendNumber(nil, kindBye, 0))
		for k := kind(0); k != kindFin; {
			k, _ = next.frame()
		}
		next = next.resume("c", 2, 0, 0)
		next.again = 1
		next.send(1)
		next.awaitAck(1)
		r.wantHandled("a:1:1", "c:1:1!")
	})
}

// A renewal that is under way when a handler fails does not give the lease
// back that was ended for it.
func TestRenewalMeetsFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		first := true
		r.broken = renewing{r.store, func(int) {
			if first { // because the hub began to listen
				first = false
				time.Sleep(time.Second / 2)
			}
		}}
		r.handle = func(_ context.Context, hub string, _ *Session, _ Message) error {
			if hub == "a" {
				return context.Canceled
			}
			return nil
		}
		r.start("a", nil)
		r.broken = nil
		r.start("b", nil)
		c := r.hello("a")
		synctest.Wait()
		c.send(1)
		time.Sleep(time.Second)
		start := time.Now()
		next := c.resume("b", 1, 0, 0)
		if took := time.Since(start); took > 0 {
			t.Errorf("resuming took %v, want no wait for a lease", took)
		}
		next.send(1)
		next.awaitAck(1)
		r.wantHandled("a:1:1", "b:1:1!")
	})
}

// However many leases are due, no look of the keeper is waited for between the
// requests that renew them.
func TestManyRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		first, last := time.Time{}, time.Time{}
		renewed := 0
		r.broken = renewing{r.store, func(n int) {
			time.Sleep(10 * time.Millisecond)
			r.mu.Lock()
			defer r.mu.Unlock()
			if renewed == 0 {
				first = time.Now()
			}
			last = time.Now()
			renewed += n
		}}
		r.start("a", nil)
		const clients = 2*maxFlights*renewBatch + 1
		for range clients {
			r.hello("a")
		}
		time.Sleep(time.Second) // what was looked at when the hub began to listen
		r.mu.Lock()
		renewed = 0
		r.mu.Unlock()
		time.Sleep(DefaultLease/2 - time.Second)
		r.stops["a"]()
		r.mu.Lock()
		defer r.mu.Unlock()
		if renewed < clients || last.Sub(first) > 50*time.Millisecond {
			t.Errorf("%d leases were renewed within %v, want %d at once", renewed, last.Sub(first), clients)
		}
	})
}

type renewing struct {
	Store
	look func(leases int)
}

func (s renewing) Renew(ctx context.Context, leases []Lease) []Renewal {
	s.look(len(leases))
	return s.Store.Renew(ctx, leases)
}
