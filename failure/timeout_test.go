package failure_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
)

// deaf is a call that ignores its context for d.
func deaf(d time.Duration) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		time.Sleep(d)
		return 7, ctx.Err()
	}
}

// FA-27: a call that does not look at its context is waited for, and reported.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := failure.NewTimeout(time.Second, nil)
		start := time.Now()
		_, err := failure.Call(t.Context(), func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, limit)
		if took := time.Since(start); !errors.Is(err, failure.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
			t.Errorf("Call error = %v after %v, want ErrTimeout after 1s", err, took)
		}
		start = time.Now()
		_, err = failure.Call(t.Context(), deaf(time.Minute), limit)
		if took := time.Since(start); !errors.Is(err, failure.ErrTimeout) || took != time.Minute {
			t.Errorf("Call error = %v after %v, want ErrTimeout when the call had ended", err, took)
		}
		got, err := failure.Call(t.Context(), func(context.Context) (int, error) { time.Sleep(time.Minute); return 7, nil }, limit)
		if got != 7 || err != nil {
			t.Errorf("Call = %d, %v, want what came, though late", got, err)
		}
		if _, err := failure.Call(t.Context(), func(context.Context) (int, error) { return 0, errBoom }, limit); err != errBoom {
			t.Errorf("Call error = %v, want boom as it was", err)
		}
	})
}

// The deadline of the caller is his own, not the Timeout's.
func TestTimeoutOfCaller(t *testing.T) {
	for _, abandon := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			limit := failure.NewTimeout(time.Minute, &failure.TimeoutOptions{Abandon: abandon})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := failure.Call(ctx, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}, limit)
			if errors.Is(err, failure.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("abandon %v: Call error = %v, want the deadline's alone", abandon, err)
			}
		})
	}
}

// FA-27: an abandoned call runs on by itself.
func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := failure.NewTimeout(time.Second, &failure.TimeoutOptions{Abandon: true})
		start := time.Now()
		inner := failure.NewLocalBreaker(nil)
		got, err := failure.Call(t.Context(), deaf(time.Minute), limit, inner)
		if took := time.Since(start); got != 0 || !errors.Is(err, failure.ErrTimeout) || !errors.Is(err, transparency.ErrUncertain) || took != time.Second {
			t.Errorf("Call = %d, %v after %v, want ErrTimeout and ErrUncertain after 1s", got, err, took)
		}
		if s := inner.Stats(); s.Failed != 0 {
			t.Errorf("the inner breaker has counted %+v before the call ended", s)
		}
		time.Sleep(time.Hour)
		if s := inner.Stats(); s.Failed != 1 {
			t.Errorf("the inner breaker has counted %+v, want the call that ended", s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, err = failure.Call(ctx, deaf(time.Minute), limit)
		if errors.Is(err, failure.ErrTimeout) || !errors.Is(err, context.Canceled) || !errors.Is(err, transparency.ErrUncertain) {
			t.Errorf("Call error = %v, want Canceled and ErrUncertain", err)
		}
		if got, err := failure.Call(t.Context(), deaf(time.Millisecond), limit); got != 7 || err != nil {
			t.Errorf("Call in time = %d, %v, want 7, nil", got, err)
		}
		_, err = failure.Call(t.Context(), func(context.Context) (int, error) { return 0, errBoom }, limit)
		if err != errBoom {
			t.Errorf("Call error = %v, want boom as it was", err)
		}
		time.Sleep(time.Hour)
	})
}

// FA-1: panics and Goexit find their way back from another goroutine, and an
// abandoned one's panic to the log.
func TestAbandonPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		limit := failure.NewTimeout(time.Second, &failure.TimeoutOptions{Abandon: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		func() {
			defer func() {
				if got := recover(); got != errBoom {
					t.Errorf("panic %v, want the very one", got)
				}
			}()
			_, _ = failure.Call(t.Context(), func(context.Context) (int, error) { panic(errBoom) }, limit)
		}()
		exited := make(chan bool)
		go func() {
			defer func() { exited <- recover() == nil }()
			_, _ = failure.Call(t.Context(), func(context.Context) (int, error) { runtime.Goexit(); return 0, nil }, limit)
			t.Error("Call returned after Goexit")
		}()
		if !<-exited {
			t.Error("Goexit became a panic")
		}
		_, err := failure.Call(t.Context(), func(context.Context) (int, error) { time.Sleep(time.Minute); panic("late") }, limit)
		if !errors.Is(err, failure.ErrTimeout) {
			t.Errorf("Call error = %v, want ErrTimeout", err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if !strings.Contains(log.String(), "late") {
			t.Errorf("log %q, want the late panic", log.String())
		}
	})
}

// FA-27: only so many abandoned calls go on, and what they bring is handed over.
func TestAbandonIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		discarded := make(chan any, 10)
		limit := failure.NewTimeout(time.Second, &failure.TimeoutOptions{
			Abandon: true, MaxAbandoned: 2,
			Discard: func(result any) { discarded <- result },
		})
		for range 2 {
			if _, err := failure.Call(t.Context(), deaf(time.Minute), limit); !errors.Is(err, failure.ErrTimeout) {
				t.Errorf("Call error = %v, want ErrTimeout", err)
			}
		}
		calls, err := try(t.Context(), limit)
		if calls != 0 || !errors.Is(err, failure.ErrFull) || !errors.Is(err, transparency.ErrRejected) || errors.Is(err, failure.ErrTimeout) {
			t.Errorf("Call = %d calls, %v, want ErrFull", calls, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if calls, err := try(t.Context(), limit); calls != 1 || err != nil {
			t.Errorf("Call = %v, want it made when the abandoned ones have ended", err)
		}
		if len(discarded) != 2 || <-discarded != 7 {
			t.Errorf("%d results were discarded, want two", len(discarded))
		}
	})
}
