package replica_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/replica"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	c := replica.NewMemoryCluster(nil)
	good := c.Nodes()
	with := func(change func([]replica.Node[*replica.MemoryNode])) []replica.Node[*replica.MemoryNode] {
		nodes := c.Nodes()
		change(nodes)
		return nodes
	}
	type nodes = []replica.Node[*replica.MemoryNode]
	for name, tt := range map[string]struct {
		backend replica.Backend[*replica.MemoryNode]
		nodes   nodes
		opts    *replica.Options
	}{
		"no backend":            {nil, good, nil},
		"nil backend":           {(*replica.MemoryCluster)(nil), good, nil},
		"no nodes":              {c, nil, nil},
		"no name":               {c, with(func(n nodes) { n[1].Name = "" }), nil},
		"same name":             {c, with(func(n nodes) { n[1].Name = n[0].Name }), nil},
		"same client":           {c, with(func(n nodes) { n[1].Client = n[0].Client }), nil},
		"nil client":            {c, with(func(n nodes) { n[1].Client = nil }), nil},
		"unknown role":          {c, with(func(n nodes) { n[1].Role = 9 }), nil},
		"replicas only":         {c, with(func(n nodes) { n[0].Role, n[1].Role, n[2].Role = 2, 2, 2 }), nil},
		"no probes":             {c, good, &replica.Options{ProbeInterval: -1}},
		"no probe timeout":      {c, good, &replica.Options{ProbeTimeout: -1}},
		"no bound":              {c, good, &replica.Options{MaxConcurrent: -1}},
		"more than all":         {c, good, &replica.Options{PrimaryShare: 1.5}},
		"probes without a rest": {c, good, &replica.Options{ProbeInterval: 1}},
	} {
		if _, err := replica.New(tt.backend, tt.nodes, tt.opts); !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("New (%s) error = %v, want ErrInvalid", name, err)
		}
	}
}

// A pool that is never used has started nothing, and can be closed.
func TestUnusedPool(t *testing.T) {
	before := runtime.NumGoroutine()
	c := replica.NewMemoryCluster(nil)
	p, err := replica.New(c, c.Nodes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := runtime.NumGoroutine(); got > before {
		t.Errorf("New started %d goroutines", got-before)
	}
	if s := p.Stats(); s.Nodes != 3 || s.Healthy != 0 {
		t.Errorf("Stats = %+v", s)
	}
	if err := p.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	wantErr(t, "Read", p.Read(t.Context(), nil, func(context.Context, *replica.MemoryNode) error { return nil }), replica.ErrClosed)
}

// The first call waits for the nodes that it needs, and no longer than its
// context.
func TestFirstCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := replica.NewMemoryCluster(nil)
		for _, n := range c.Nodes() {
			n.Client.SetFault(replica.FaultHang)
		}
		p := newPool(t, c, c.Nodes(), nil)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := p.Read(ctx, nil, func(context.Context, *replica.MemoryNode) error { return nil })
		wantErr(t, "Read", err, context.DeadlineExceeded)
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Errorf("Read took %v, want 100ms", took)
		}
		start = time.Now()
		_, err = where(t, p, nil)
		wantErr(t, "Read of a dead cluster", err, replica.ErrNoReplica)
		if took := time.Since(start); took > replica.DefaultProbeTimeout {
			t.Errorf("Read took %v, want no longer than a probe", took)
		}
		for _, n := range p.Nodes() {
			if !strings.Contains(err.Error(), n.Name) {
				t.Errorf("Read error = %q does not tell of %s", err, n.Name)
			}
		}
	})
}

func TestRP34LostWrites(t *testing.T) {
	inBubble(t, 1, nil, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
		set := func(ctx context.Context, m *replica.MemoryNode) error { return m.Set(ctx, "key", "1") }
		primary := c.Node("node-1")
		primary.SetFault(replica.FaultLost)
		err := p.Write(t.Context(), nil, set)
		wantErr(t, "Write whose answer is lost", err, replica.ErrMaybeExecuted, transparency.ErrUncertain)
		if n := primary.Executed(); n != 1 || transparency.Retryable(err) {
			t.Errorf("it was executed %d times, want once; retryable: %v", n, transparency.Retryable(err))
		}
		err = p.Write(t.Context(), &replica.WriteOptions{Idempotent: true}, set)
		wantErr(t, "idempotent Write whose answers are lost", err, replica.ErrMaybeExecuted)
		if n := primary.Executed(); n != 1+replica.DefaultAttempts {
			t.Errorf("an idempotent write was executed %d times, want %d", n-1, replica.DefaultAttempts)
		}
		if s := p.Stats(); s.MaybeExecuted != 2 {
			t.Errorf("Stats.MaybeExecuted = %d, want 2", s.MaybeExecuted)
		}

		primary.SetFault(replica.FaultDown)
		err = p.Write(t.Context(), nil, set)
		wantErr(t, "Write at a primary that is down", err, replica.ErrNoPrimary, transparency.ErrUnavailable)
		if !transparency.Retryable(err) {
			t.Errorf("Write error = %v, want it retryable: nothing was sent", err)
		}

		primary.SetFault(replica.FaultNone)
		eventually(t, "writes go on", 3*time.Second, func() bool { return p.Write(t.Context(), nil, set) == nil })

		n := primary.Executed()
		primary.SetFault(replica.FaultHang)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err = p.Write(ctx, &replica.WriteOptions{Idempotent: true}, set)
		wantErr(t, "Write at a primary that hangs", err, replica.ErrMaybeExecuted, context.DeadlineExceeded)
		primary.SetFault(replica.FaultNone)
		if got := primary.Executed() - n; got != 1 {
			t.Errorf("the write that may have been executed was executed %d times", got)
		}
	})
}

// A write to a primary that is full is not worth a second try.
func TestWriteOverload(t *testing.T) {
	inBubble(t, 1, nil, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
		c.Node("node-1").SetFault(replica.FaultOverload)
		calls := 0
		err := p.Write(t.Context(), &replica.WriteOptions{Idempotent: true}, func(ctx context.Context, m *replica.MemoryNode) error {
			calls++
			return m.Set(ctx, "key", "1")
		})
		if calls != 1 || !transparency.Retryable(err) {
			t.Errorf("Write = %v after %d calls, want a retryable error after one", err, calls)
		}
	})
}

// Callbacks that ignore their contexts are bounded, and then calls are refused
// at once.
func TestCallbacksLeftBehindAreBounded(t *testing.T) {
	inBubble(t, 2, nil, func(t *testing.T, _ *replica.MemoryCluster, p *memoryPool) {
		release := make(chan struct{})
		stuck := func(context.Context, *replica.MemoryNode) error { <-release; return nil }
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				start := time.Now()
				wantErr(t, "Read", p.Read(ctx, nil, stuck), context.DeadlineExceeded)
				if took := time.Since(start); took != 100*time.Millisecond {
					t.Errorf("Read took %v, want 100ms", took)
				}
			})
		}
		wg.Wait()
		if s := p.Stats(); s.Left > replica.DefaultMaxConcurrent || s.Left != 32 {
			t.Errorf("%d callbacks were left behind, want the shares of two nodes, 32", s.Left)
		}
		start := time.Now()
		_, err := replica.Query(t.Context(), p, &replica.ReadOptions{NoPrimary: true}, get)
		wantErr(t, "Read of a pool that is stuck", err, replica.ErrNoReplica, transparency.ErrUnavailable)
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v, want it refused at once", took)
		}
		// The primary has places of its own.
		if err := p.Write(t.Context(), nil, func(ctx context.Context, m *replica.MemoryNode) error { return m.Set(ctx, "key", "1") }); err != nil {
			t.Errorf("Write = %v, want it unharmed", err)
		}
		close(release)
		synctest.Wait()
		if s := p.Stats(); s.Left != 0 || s.Running != 0 {
			t.Errorf("Stats = %+v after they have ended", s)
		}
	})
}

// Who waits for a place at a node that is left out goes elsewhere.
func TestWaitersMoveOn(t *testing.T) {
	inBubble(t, 2, &replica.Options{MaxConcurrent: 3}, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
		c.Node("node-2").SetFault(replica.FaultHang)
		var slow atomic.Int32
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				start := time.Now()
				if _, err := where(t, p, nil); err != nil {
					t.Errorf("Read = %v", err)
				}
				if time.Since(start) >= replica.DefaultAttemptTimeout {
					slow.Add(1)
				}
			})
		}
		wg.Wait()
		// One was at the node. The others need not have waited for so long.
		if n := slow.Load(); n != 1 {
			t.Errorf("%d of ten reads took the time limit of an attempt, want one", n)
		}
		if s := p.Stats(); s.Retries < 2 {
			t.Errorf("Stats.Retries = %d, want those that moved on", s.Retries)
		}
	})
}

func TestGoexitReachesTheCaller(t *testing.T) {
	inBubble(t, 1, &replica.Options{MaxConcurrent: 2}, func(t *testing.T, _ *replica.MemoryCluster, p *memoryPool) {
		for range 3 {
			returned := false
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = p.Read(t.Context(), nil, func(context.Context, *replica.MemoryNode) error {
					runtime.Goexit()
					return nil
				})
				returned = true
			}()
			<-done
			if returned {
				t.Errorf("Read returned although its callback called Goexit")
			}
		}
		if n := p.Stats().Running; n != 0 {
			t.Errorf("%d callbacks are said to run", n)
		}
	})
}

// A panic that nobody is there for is logged, as is the stack of any.
func TestPanicsAreLogged(t *testing.T) {
	var log bytes.Buffer
	var mu sync.Mutex
	logger := slog.New(slog.NewTextHandler(&locked{&mu, &log}, nil))
	inBubble(t, 1, &replica.Options{Logger: logger}, func(t *testing.T, _ *replica.MemoryCluster, p *memoryPool) {
		release := make(chan struct{})
		err := p.Read(t.Context(), &replica.ReadOptions{AttemptTimeout: time.Millisecond, Attempts: -1}, func(context.Context, *replica.MemoryNode) error {
			<-release
			panic("late")
		})
		wantErr(t, "Read", err, replica.ErrNoReplica)
		close(release)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(log.String(), "call_test.go") {
			t.Errorf("the log holds no stack: %s", log.String())
		}
	})
}

type locked struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func TestChangesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := replica.NewMemoryCluster(nil)
		p := newPool(t, c, c.Nodes(), nil)
		var told []string
		var errs []error
		done := make(chan struct{})
		changes := p.Changes(t.Context())
		go func() {
			defer close(done)
			for c := range changes {
				if c.Node == "node-2" {
					told = append(told, fmt.Sprintf("%v %v -> %v %v", c.OldRole, c.OldState, c.Role, c.State))
					errs = append(errs, c.Err)
				}
				time.Sleep(3 * time.Second) // nobody waits for it
				_ = p.Stats()
			}
		}()
		warm(t, p)
		c.Node("node-2").SetFault(replica.FaultDown)
		time.Sleep(2 * time.Second)
		c.Node("node-2").SetFault(replica.FaultNone)
		time.Sleep(20 * time.Second)
		c.Promote("node-2")
		time.Sleep(time.Minute)
		_ = p.Close()
		<-done
		want := []string{
			"unknown unknown -> replica up",
			"replica up -> replica down",
			"replica down -> replica ejected",
			"replica ejected -> replica up",
			"replica up -> primary up",
		}
		if fmt.Sprint(told) != fmt.Sprint(want) {
			t.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
		}
		if errs[1] == nil || errs[0] != nil {
			t.Errorf("reasons told: %v", errs)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for c := range p.Changes(ctx) {
			t.Errorf("Changes with a context that has ended = %+v", c)
		}
	})
}

// What a pool and its parts print holds no client.
func TestPrintsNoClient(t *testing.T) {
	type secret struct{ password string }
	nodes := []replica.Node[*secret]{{Name: "a", Client: &secret{"hunter2"}}}
	p, err := replica.New(replica.Backend[*secret](nothing[*secret]{}), nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, x := range []any{p, nodes[0], nodes} {
			if s := fmt.Sprintf(verb, x); strings.Contains(s, "hunter2") || s == "" {
				t.Errorf("Sprintf(%q) = %q", verb, s)
			}
		}
	}
}

type nothing[C any] struct{}

func (nothing[C]) Probe(context.Context, replica.Node[C]) (replica.Status, error) {
	return replica.Status{}, nil
}
func (nothing[C]) Classify(error, replica.Role) replica.Class { return replica.ClassApp }

// A read that turns out to write goes once to the primary, not to another
// replica, and the replica is not blamed.
func TestRP39MisroutedRead(t *testing.T) {
	inBubble(t, 2, nil, func(t *testing.T, _ *replica.MemoryCluster, p *memoryPool) {
		for range 10 {
			var at []string
			err := p.Read(t.Context(), nil, func(ctx context.Context, m *replica.MemoryNode) error {
				at = append(at, m.Name())
				return m.Set(ctx, "key", "1")
			})
			if err != nil || len(at) != 2 || at[1] != "node-1" {
				t.Errorf("Read = %v at %v, want nil at a replica and then the primary", err, at)
			}
		}
		if s := p.Stats(); s.Healthy != 3 || s.Ejections != 0 {
			t.Errorf("Stats = %+v, want every node up", s)
		}
	})
}

// A doubt is not lifted by what comes after it.
func TestRP34DoubtRemains(t *testing.T) {
	inBubble(t, 1, nil, func(t *testing.T, c *replica.MemoryCluster, p *memoryPool) {
		for name, second := range map[string]error{"an answer": errors.New("no such account"), "a refusal": nil} {
			calls := 0
			err := p.Write(t.Context(), &replica.WriteOptions{Idempotent: true}, func(ctx context.Context, m *replica.MemoryNode) error {
				if calls++; calls == 1 {
					return errLost
				}
				if second == nil {
					m.SetFault(replica.FaultDown)
					return m.Set(ctx, "key", "1")
				}
				return second
			})
			wantErr(t, "Write that was lost, then got "+name, err, replica.ErrMaybeExecuted)
			if errors.Is(err, transparency.ErrUnavailable) || second != nil && !errors.Is(err, second) {
				t.Errorf("Write error = %v, want it uncertain and with the cause", err)
			}
			c.Node("node-1").SetFault(replica.FaultNone)
			eventually(t, "writes go on", 5*time.Second, func() bool {
				return p.Write(t.Context(), nil, func(context.Context, *replica.MemoryNode) error { return nil }) == nil
			})
		}
	})
}
