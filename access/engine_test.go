package access_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/access"
	"github.com/go-transparency/transparency/internal/testkit"
)

// A funcDriver is a driver made of two functions, and counts its calls.
type funcDriver struct {
	fetch  func(ctx context.Context, key string, limit int64) ([]byte, error)
	store  func(ctx context.Context, key string, data []byte, cond access.PutOptions) error
	calls  atomic.Int64
	closed atomic.Int64
}

func (d *funcDriver) Fetch(ctx context.Context, key string, limit int64) ([]byte, error) {
	d.calls.Add(1)
	return d.fetch(ctx, key, limit)
}

func (d *funcDriver) Store(ctx context.Context, key string, data []byte, cond access.PutOptions) error {
	d.calls.Add(1)
	return d.store(ctx, key, data, cond)
}

func (d *funcDriver) Close() error {
	d.closed.Add(1)
	return errors.New("broken")
}

// deaf returns a driver that hears of no context, and what ends its calls.
func deaf() (*funcDriver, func()) {
	release := make(chan struct{})
	return &funcDriver{
		fetch: func(context.Context, string, int64) ([]byte, error) { <-release; return []byte("1"), nil },
		store: func(context.Context, string, []byte, access.PutOptions) error { <-release; return nil },
	}, func() { close(release) }
}

func TestCallerReturnsWhenContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver, release := deaf()
		defer release()
		repo := access.New(driver, nil)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := repo.Get(ctx, "doc")
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, transparency.ErrUnavailable) {
			t.Errorf("Get error = %v, want the context's and ErrUnavailable", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("Get took %v, want 1s", took)
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		_, err = repo.Put(ctx, "doc", []byte("1"), nil)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, transparency.ErrUncertain) {
			t.Errorf("Put error = %v, want the context's and ErrUncertain", err)
		}
	})
}

func TestTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{0: 3 * time.Second, time.Minute: time.Minute, -1: time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			driver, release := deaf()
			defer release()
			repo := access.New(driver, &access.Options{Timeout: timeout})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			start := time.Now()
			_, err := repo.Get(ctx, "doc")
			if took := time.Since(start); took != want || !errors.Is(err, transparency.ErrUnavailable) {
				t.Errorf("Timeout %v: Get error = %v after %v, want ErrUnavailable after %v", timeout, err, took, want)
			}
			if got := errors.Is(err, context.DeadlineExceeded); got != (timeout < 0) {
				t.Errorf("Timeout %v: Get error = %v: a context error only if the caller's has ended", timeout, err)
			}
		})
	}
}

func TestStuckDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver, release := deaf()
		repo := access.New(driver, nil)
		for range 100 {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				defer cancel()
				start := time.Now()
				if _, err := repo.Get(ctx, "doc"); !errors.Is(err, transparency.ErrUnavailable) {
					t.Errorf("Get error = %v, want ErrUnavailable", err)
				}
				if took := time.Since(start); took > 100*time.Millisecond {
					t.Errorf("Get took %v, want 100ms", took)
				}
			}()
		}
		time.Sleep(time.Second)
		if n := driver.calls.Load(); n != 64 {
			t.Errorf("a stuck driver has %d calls, want 64", n)
		}
		start := time.Now()
		if _, err := repo.Get(t.Context(), "doc"); !errors.Is(err, transparency.ErrUnavailable) || time.Since(start) != 0 {
			t.Errorf("Get of a stuck repository: error = %v after %v, want ErrUnavailable at once", err, time.Since(start))
		}
		release()
		synctest.Wait()
		if got, err := get(repo, "doc"); err != nil || got != "1" {
			t.Errorf("Get after the driver woke = %q, %v, want 1", got, err)
		}
	})
}

func TestDriverErrors(t *testing.T) {
	cause := errors.New("cause")
	for _, tt := range []struct {
		from, get, put error
	}{
		{cause, transparency.ErrUnavailable, transparency.ErrUncertain},
		{fmt.Errorf("%w: %w", transparency.ErrDenied, cause), transparency.ErrDenied, transparency.ErrDenied},
		{fmt.Errorf("%w: %w", transparency.ErrUnavailable, cause), transparency.ErrUnavailable, transparency.ErrUnavailable},
		{fmt.Errorf("%w: %w", access.ErrNotFound, cause), access.ErrNotFound, access.ErrNotFound},
		{fmt.Errorf("%w: %w", access.ErrConflict, cause), access.ErrConflict, access.ErrConflict},
		{access.ErrTooLarge, access.ErrTooLarge, access.ErrTooLarge},
	} {
		repo := access.New(&funcDriver{
			fetch: func(context.Context, string, int64) ([]byte, error) { return []byte("half"), tt.from },
			store: func(context.Context, string, []byte, access.PutOptions) error { return tt.from },
		}, nil)
		doc, err := repo.Get(t.Context(), "doc")
		if !errors.Is(err, tt.get) || !errors.Is(err, tt.from) || doc.Data != nil {
			t.Errorf("driver error %v: Get = %v, %v, want %v", tt.from, doc, err, tt.get)
		}
		if _, err := repo.Put(t.Context(), "doc", []byte("1"), nil); !errors.Is(err, tt.put) || !errors.Is(err, tt.from) {
			t.Errorf("driver error %v: Put error = %v, want %v", tt.from, err, tt.put)
		}
	}
}

func TestRefusedBeforeDriver(t *testing.T) {
	driver := &funcDriver{}
	repo := access.New(driver, &access.Options{MaxBytes: 5})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err1 := repo.Get(t.Context(), "../x")
	_, err2 := repo.Get(ended, "doc")
	_, err3 := repo.Put(t.Context(), "doc", []byte("123456"), nil)
	_, err4 := repo.Put(t.Context(), "doc", []byte{}, nil)
	for i, err := range []error{err1, err2, err3, err4} {
		if err == nil || errors.Is(err, transparency.ErrUnavailable) || errors.Is(err, transparency.ErrUncertain) {
			t.Errorf("call %d: error = %v, want a refusal", i+1, err)
		}
	}
	if n := driver.calls.Load(); n != 0 {
		t.Errorf("the driver was called %d times, want 0", n)
	}
}

func TestLimitReachesDriver(t *testing.T) {
	for maxBytes, want := range map[int64]int64{0: access.DefaultMaxBytes, 5: 5} {
		repo := access.New(&funcDriver{fetch: func(_ context.Context, _ string, limit int64) ([]byte, error) {
			if limit != want {
				t.Errorf("MaxBytes %d: the driver's limit is %d, want %d", maxBytes, limit, want)
			}
			return make([]byte, limit+1), nil
		}}, &access.Options{MaxBytes: maxBytes})
		if _, err := get(repo, "doc"); !errors.Is(err, access.ErrTooLarge) {
			t.Errorf("MaxBytes %d: Get of one more: error = %v, want ErrTooLarge", maxBytes, err)
		}
	}
	large := strings.Repeat("x", 3<<20)
	repo := access.New(&funcDriver{fetch: func(_ context.Context, _ string, limit int64) ([]byte, error) {
		return []byte(large[:min(limit+1, int64(len(large)))]), nil
	}}, &access.Options{MaxBytes: -1})
	if got, err := get(repo, "doc"); err != nil || got != large {
		t.Errorf("MaxBytes -1: Get of 3 MiB: %d bytes, %v", len(got), err)
	}
}

func TestCloseDriver(t *testing.T) {
	driver := &funcDriver{}
	repo := access.New(driver, nil)
	for range 2 {
		if err := repo.Close(); !errors.Is(err, transparency.ErrUncertain) || !strings.Contains(err.Error(), "broken") {
			t.Errorf("Close() error = %v, want that of the driver, in a class", err)
		}
	}
	if n := driver.closed.Load(); n != 1 {
		t.Errorf("the driver was closed %d times, want once", n)
	}
	if _, err := get(access.New(nil, nil), "doc"); !errors.Is(err, transparency.ErrInvalid) {
		t.Errorf("New(nil): Get error = %v, want ErrInvalid", err)
	}
	repo = access.New(nil, nil)
	if err := repo.Close(); err != nil {
		t.Errorf("New(nil): Close() error = %v", err)
	}
	if _, err := get(repo, "doc"); !errors.Is(err, access.ErrClosed) {
		t.Errorf("New(nil): Get after Close: error = %v, want ErrClosed", err)
	}
}

// What no constructor made has errors, and does not panic.
func TestZeroValues(t *testing.T) {
	for _, v := range []any{
		new(access.Repository), (*access.Repository)(nil),
		access.Document{}, access.HTTPOptions{}, access.OpenOptions{}, new(access.StatusError),
	} {
		testkit.Zero(t.Context(), t, v, "Close", "Unwrap")
	}
	_, err := new(access.Repository).Put(t.Context(), "doc", []byte("1"), nil)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Put of a zero repository: error = %v, want ErrInvalid alone", err)
	}
}

func TestCopiedRepository(t *testing.T) {
	repo := access.NewMemory(nil)
	twin := *repo
	if _, err := twin.Put(t.Context(), "doc", []byte("1"), nil); err != nil {
		t.Fatal(err)
	}
	if got, err := get(repo, "doc"); err != nil || got != "1" {
		t.Errorf("Get = %q, %v, want what was put by a copy", got, err)
	}
	_ = repo.Close()
	if _, err := get(&twin, "doc"); !errors.Is(err, access.ErrClosed) {
		t.Errorf("Get of a copy after Close: error = %v, want ErrClosed", err)
	}
}

// TestGetIsNeverUncertain: whatever a driver says of its own doubts.
func TestGetIsNeverUncertain(t *testing.T) {
	for _, from := range []error{transparency.ErrUncertain, errors.Join(transparency.ErrUnavailable, transparency.ErrUncertain)} {
		repo := access.New(&funcDriver{fetch: func(context.Context, string, int64) ([]byte, error) { return nil, from }}, nil)
		if _, err := get(repo, "doc"); !transparency.Retryable(err) || errors.Is(err, transparency.ErrUncertain) {
			t.Errorf("driver error %v: Get error = %v, want ErrUnavailable alone", from, err)
		}
	}
}

// getOnly has one method, as a repository from elsewhere may have.
type getOnly struct{ access.ConfigRepository }

func TestPutUnsupported(t *testing.T) {
	_, err := access.Put(t.Context(), getOnly{access.NewMemory(nil)}, "doc", []byte("1"), nil)
	if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, transparency.ErrInvalid) {
		t.Errorf("Put error = %v, want errors.ErrUnsupported and ErrInvalid", err)
	}
}
