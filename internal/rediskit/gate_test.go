package rediskit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
)

// hang blocks until release is closed, whatever the context does, as a read
// from a server that stopped does.
func hang(release <-chan struct{}) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		<-release
		return "late", nil
	}
}

func TestDoReturnsTheResult(t *testing.T) {
	g := NewGate(0)
	got, err := Do(t.Context(), g, Writes, func(context.Context) (string, error) { return "v", nil }, nil)
	if got != "v" || err != nil {
		t.Errorf("Do = %q, %v, want \"v\", nil", got, err)
	}
}

func TestDoContextEndedBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	called := false
	_, err := Do(ctx, NewGate(0), Writes, func(context.Context) (string, error) { called = true; return "", nil }, nil)
	if err != context.Canceled || called {
		t.Errorf("Do = %v, called %v, want the bare context error and no call", err, called)
	}
}

func TestDoEndsWithItsCaller(t *testing.T) {
	tests := []struct {
		name   string
		effect Effect
		cancel bool // plain cancel; else the deadline
		want   []error
		not    []error
	}{
		{"write, cancel", Writes, true, []error{transparency.ErrUncertain, context.Canceled}, []error{transparency.ErrUnavailable}},
		{"write, deadline", Writes, false, []error{transparency.ErrUncertain, context.DeadlineExceeded}, []error{transparency.ErrUnavailable}},
		{"read, cancel", Reads, true, []error{transparency.ErrUnavailable, context.Canceled}, []error{transparency.ErrUncertain}},
		{"read, deadline", Reads, false, []error{transparency.ErrUnavailable, context.DeadlineExceeded}, []error{transparency.ErrUncertain}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewGate(time.Minute)
				release := make(chan struct{})
				late := make(chan string, 1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if tt.cancel {
					time.AfterFunc(100*time.Millisecond, cancel)
				}
				start := time.Now()
				_, err := Do(ctx, g, tt.effect, hang(release), func(v string, _ error) { late <- v })
				took, want := time.Since(start), time.Second
				if tt.cancel {
					want = 100 * time.Millisecond
				}
				if took != want {
					t.Errorf("Do took %v, want %v", took, want)
				}
				for _, e := range tt.want {
					if !errors.Is(err, e) {
						t.Errorf("Do error = %v, want %v in it", err, e)
					}
				}
				for _, e := range tt.not {
					if errors.Is(err, e) {
						t.Errorf("Do error = %v, must not be %v", err, e)
					}
				}
				if got := g.Abandoned(); got != 1 {
					t.Errorf("Abandoned() = %d, want 1", got)
				}
				close(release)
				if v := <-late; v != "late" {
					t.Errorf("late saw %q, want the command's own result", v)
				}
				synctest.Wait()
				if got := g.Abandoned(); got != 0 {
					t.Errorf("Abandoned() = %d after the command ended, want 0", got)
				}
			})
		})
	}
}

func TestDoCommandThatExits(t *testing.T) {
	g := NewGate(time.Minute)
	_, err := Do(t.Context(), g, Writes, func(context.Context) (int, error) { runtime.Goexit(); return 1, nil }, nil)
	if !errors.Is(err, transparency.ErrUncertain) || g.Abandoned() != 0 {
		t.Errorf("Do = %v with %d abandoned, want ErrUncertain and none", err, g.Abandoned())
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cancelled, late := make(chan struct{}), make(chan error, 1)
	_, err = Do(ctx, g, Writes, func(context.Context) (int, error) {
		cancel() // only now, or Do would not begin
		<-cancelled
		runtime.Goexit()
		return 1, nil
	}, func(_ int, err error) { late <- err })
	close(cancelled)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %v, want context.Canceled", err)
	}
	if err := <-late; err == nil {
		t.Error("late saw a result of a command that exited")
	}
}

func TestDoOwnTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		start := time.Now()
		_, err := Do(context.Background(), NewGate(0), Writes, hang(release), nil)
		if took := time.Since(start); took != DefaultTimeout {
			t.Errorf("Do took %v, want %v", took, DefaultTimeout)
		}
		if !errors.Is(err, transparency.ErrUncertain) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do error = %v, want ErrUncertain and no context error: the caller's has not ended", err)
		}
	})
}

// A command that reports the end of its own time as a context error must not
// look as if the caller's context had ended.
func TestDoClientReportsOwnTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := Do(t.Context(), NewGate(time.Second), Reads, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}, nil)
		if !errors.Is(err, transparency.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do error = %v, want ErrUnavailable and no context error", err)
		}
	})
}

// The connection's deadline fires a moment before the context's timer.
func TestDoConnectionDeadlineFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := Do(ctx, NewGate(time.Minute), Writes, func(context.Context) (string, error) {
			time.Sleep(time.Second - time.Millisecond)
			return "", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
		}, nil)
		if !errors.Is(err, transparency.ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do error = %v, want ErrUncertain joined with the context's error", err)
		}
	})
}

func TestGateBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(time.Minute)
		release := make(chan struct{})
		var sent sync.Map
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		errs := make([]error, 1000)
		start := time.Now()
		for i := range errs {
			wg.Go(func() {
				_, errs[i] = Do(ctx, g, Writes, func(context.Context) (int, error) {
					sent.Store(i, true)
					<-release
					return 0, nil
				}, nil)
			})
		}
		wg.Wait()
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Errorf("1000 callers took %v, want 100ms", took)
		}
		n := 0
		for i, err := range errs {
			_, was := sent.Load(i)
			class := transparency.ErrUnavailable
			if was {
				class, n = transparency.ErrUncertain, n+1
			}
			if !errors.Is(err, class) || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("caller %d (sent %v): error = %v, want %v and the context's", i, was, err, class)
			}
		}
		if n != Limit || g.Abandoned() != Limit {
			t.Errorf("%d sent, %d abandoned, want %d of both", n, g.Abandoned(), Limit)
		}

		// Full of abandoned commands, the gate refuses at once.
		start = time.Now()
		_, err := Do(t.Context(), g, Writes, hang(release), nil)
		if !transparency.Retryable(err) || time.Since(start) != 0 {
			t.Errorf("Do on a stuck gate = %v after %v, want a retryable error at once", err, time.Since(start))
		}
		close(release)
		synctest.Wait()
		if _, err := Do(t.Context(), g, Writes, hang(release), nil); err != nil {
			t.Errorf("Do after the server woke = %v, want nil", err)
		}
	})
}

// A caller waits for a place no longer than for an answer.
func TestGateWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(time.Second)
		for range Limit {
			g.slots <- struct{}{} // under way, not abandoned
		}
		start := time.Now()
		_, err := Do(context.Background(), g, Writes, func(context.Context) (int, error) { return 0, nil }, nil)
		if !transparency.Retryable(err) || time.Since(start) != time.Second {
			t.Errorf("Do = %v after %v, want a retryable error after 1s", err, time.Since(start))
		}
	})
}

func TestDoJoinsTheContextWithTheRealError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Do(ctx, NewGate(0), Writes, func(context.Context) (int, error) {
		cancel()
		return 0, redis.ErrPoolTimeout
	}, nil)
	// Either side may win the race; the context's error is there both ways.
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Do error = %v, want context.Canceled in it", err)
	}
}

func TestClassify(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connect: connection refused")}
	slowDial := &net.OpError{Op: "dial", Net: "tcp", Err: context.DeadlineExceeded}
	read := &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	una, unc := transparency.ErrUnavailable, transparency.ErrUncertain
	den, inv := transparency.ErrDenied, transparency.ErrInvalid
	tests := []struct {
		name  string
		err   error
		read  error
		write error
	}{
		{"refused", dial, una, una},
		{"dial timed out", slowDial, una, una},
		{"pool timeout", redis.ErrPoolTimeout, una, una},
		{"pool exhausted", redis.ErrPoolExhausted, una, una},
		{"client closed", redis.ErrClosed, una, una},
		{"timed out after sending", read, una, unc},
		{"EOF", io.EOF, una, unc},
		{"unexpected EOF", fmt.Errorf("read: %w", io.ErrUnexpectedEOF), una, unc},
		{"anything else", errors.New("what"), una, unc},
		{"LOADING", reply("LOADING Redis is loading the dataset in memory"), una, una},
		{"READONLY", reply("READONLY You can't write against a read only replica."), una, una},
		{"MASTERDOWN", reply("MASTERDOWN Link with MASTER is down"), una, una},
		{"CLUSTERDOWN", reply("CLUSTERDOWN The cluster is down"), una, una},
		{"OOM", reply("OOM command not allowed when used memory > 'maxmemory'."), una, una},
		{"OOM in a script, Redis 6", reply("ERR Error running script (call to f_1): @user_script:1: OOM command not allowed"), una, una},
		{"max clients", reply("ERR max number of clients reached"), una, una},
		{"NOAUTH", reply("NOAUTH Authentication required."), den, den},
		{"WRONGPASS", reply("WRONGPASS invalid username-password pair or user is disabled."), den, den},
		{"old AUTH", reply("ERR invalid password"), den, den},
		{"NOPERM", reply("NOPERM User bob has no permissions to run the 'get' command"), den, den},
		{"WRONGTYPE", reply("WRONGTYPE Operation against a key holding the wrong kind of value"), inv, inv},
		{"CROSSSLOT", reply("CROSSSLOT Keys in request don't hash to the same slot"), inv, inv},
		{"syntax", reply("ERR syntax error"), inv, inv},
	}
	for _, tt := range tests {
		for effect, want := range map[Effect]error{Reads: tt.read, Writes: tt.write} {
			err := Classify(effect, tt.err)
			for _, class := range []error{una, unc, den, inv, transparency.ErrRejected} {
				if got := errors.Is(err, class); got != (class == want) {
					t.Errorf("%s, effect %d: errors.Is(%v, %v) = %v", tt.name, effect, err, class, got)
				}
			}
			if tt.err != error(slowDial) && !errors.Is(err, tt.err) {
				t.Errorf("%s: %v does not unwrap to its cause", tt.name, err)
			}
		}
	}
	if err := Classify(Writes, slowDial); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a dial that timed out = %v, must not pass for the end of the caller's context", err)
	}
	already := fmt.Errorf("%w: bad", transparency.ErrInvalid)
	if got := Classify(Writes, already); got != already {
		t.Errorf("Classify of a classed error = %v, want it unchanged", got)
	}
	if got := Classify(Writes, nil); got != nil {
		t.Errorf("Classify(nil) = %v, want nil", got)
	}
}

// reply is an error reply as go-redis gives it.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestTextShowsNothingQuoted(t *testing.T) {
	for _, text := range []string{
		"NOPERM User hunter2 has no permissions to access the 'hunter2' key",
		"NOPERM this user has no permissions to access the \"hunter2\" key",
		"ERR unknown command 'hunter2', with args beginning with: 'hunter2' 'hunter2",
		"ERR unknown command `hunter2`, with args beginning with: `hunter2`, ",
	} {
		err := Classify(Writes, reply(text))
		if s := err.Error(); len(s) == 0 || strings.Contains(s, "hunter2") {
			t.Errorf("Classify(%q) = %q, shows what the server quoted", text, s)
		}
	}
}

func FuzzSafeText(f *testing.F) {
	f.Add("NOPERM User a has no permissions to access the 'secret' key")
	f.Add("ERR \xff\r\n'")
	f.Fuzz(func(t *testing.T, text string) {
		got := safeText(text)
		if len(got) > 200 {
			t.Errorf("safeText is %d bytes long", len(got))
		}
		for _, r := range got {
			if r < ' ' {
				t.Errorf("safeText(%q) = %q holds a control character", text, got)
			}
		}
	})
}

// An instance can divide the limit among several gates.
func TestGateOfItsOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		g := NewGateOf(2, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		for range 2 {
			if _, err := Do(ctx, g, Writes, hang(release), nil); !errors.Is(err, transparency.ErrUncertain) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Do = %v, want a command left behind", err)
			}
			ctx = context.WithoutCancel(ctx)
			ctx, cancel = context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
		}
		start := time.Now()
		_, err := Do(t.Context(), g, Writes, hang(release), nil)
		if !transparency.Retryable(err) || time.Since(start) != 0 {
			t.Errorf("third Do = %v after %v, want a retryable error at once", err, time.Since(start))
		}
		close(release)
	})
}

// A call that only its timeout can end stays on its goroutine, if the client
// ends it then.
func TestDoInline(t *testing.T) {
	onItsOwn := func(ctx context.Context, g *Gate) bool {
		var buf [1 << 12]byte
		text, _ := Do(ctx, g, Reads, func(context.Context) (string, error) {
			return string(buf[:runtime.Stack(buf[:], false)]), nil
		}, nil)
		return !strings.Contains(text, "testing.tRunner(")
	}
	obeys := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true})
	defer obeys.Close()
	ignores := redis.NewClient(&redis.Options{})
	defer ignores.Close()
	if onItsOwn(context.Background(), NewGate(0).For(obeys)) {
		t.Errorf("Do with context.Background left its goroutine")
	}
	for name, g := range map[string]*Gate{
		"client that ignores deadlines": NewGate(0).For(ignores),
		"unknown client":                NewGate(0).For(struct{}{}),
		"no client":                     NewGate(0).For(nil),
		"no timeout":                    NewGate(-1).For(obeys),
	} {
		if !onItsOwn(context.Background(), g) {
			t.Errorf("Do (%s) did not leave its goroutine", name)
		}
	}
	if !onItsOwn(t.Context(), NewGate(0).For(obeys)) {
		t.Errorf("Do with a context that can end did not leave its goroutine")
	}
	// And the timeout is the client's to keep.
	g := NewGate(20 * time.Millisecond).For(obeys)
	_, err := Do(context.Background(), g, Writes, func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}, nil)
	if !errors.Is(err, transparency.ErrUncertain) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Do error = %v, want ErrUncertain and no context's error", err)
	}
	if len(g.slots) != 0 {
		t.Errorf("the place was not given back")
	}
}
