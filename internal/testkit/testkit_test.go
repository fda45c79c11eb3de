package testkit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-transparency/transparency/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// failures runs check in fake time.
func failures(t *testing.T, check func(r *testkit.Recorder)) (failed []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { failed = testkit.Record(t.Context(), check) })
	return failed
}

func TestRecord(t *testing.T) {
	var order []string
	got := failures(t, func(r *testkit.Recorder) {
		r.Cleanup(func() { order = append(order, "first") })
		r.Cleanup(func() { order = append(order, "second"); r.Errorf("in a cleanup") })
		r.Helper()
		if r.Context() == nil {
			t.Error("Context() = nil")
		}
		r.Errorf("%d", 1)
		r.Fatalf("%d", 2)
		r.Errorf("not reached")
	})
	if fmt.Sprint(got) != "[1 2 in a cleanup]" || fmt.Sprint(order) != "[second first]" {
		t.Errorf("Record = %q, with the cleanups %v", got, order)
	}
	if got := failures(t, func(*testkit.Recorder) {}); len(got) != 0 {
		t.Errorf("Record of what passes = %q", got)
	}
}

func TestEventually(t *testing.T) {
	n := 0
	if got := failures(t, func(r *testkit.Recorder) {
		testkit.Eventually(r, "three", time.Second, func() bool { n++; return n == 3 })
	}); len(got) != 0 || n != 3 {
		t.Errorf("failed with %q after %d looks, want three", got, n)
	}
	got := failures(t, func(r *testkit.Recorder) {
		testkit.Eventually(r, "never", time.Second, func() bool { return false })
		t.Error("Eventually returned")
	})
	if fmt.Sprint(got) != "[never: not within 1s]" {
		t.Errorf("failed with %q", got)
	}
}

func TestReceive(t *testing.T) {
	got := failures(t, func(r *testkit.Recorder) {
		ch := make(chan int)
		time.AfterFunc(time.Second, func() { ch <- 7; close(ch) })
		for _, want := range []int{7, 0} {
			if v := testkit.Receive(r, "a number", ch); v != want {
				t.Errorf("Receive = %d, want %d", v, want)
			}
		}
		testkit.Receive(r, "nothing", make(chan int))
		t.Error("Receive returned")
	})
	if fmt.Sprint(got) != "[nothing: not within 20s]" {
		t.Errorf("failed with %q", got)
	}
}

func TestOnTime(t *testing.T) {
	const patience = 100 * time.Millisecond
	for late, want := range map[time.Duration]int{0: 0, 400 * time.Millisecond: 0, 401 * time.Millisecond: 1} {
		calls := make(chan int, 10)
		got := failures(t, func(r *testkit.Recorder) {
			testkit.OnTime(r, 10, patience, func(ctx context.Context, i int) {
				calls <- i
				<-ctx.Done()
				if i == 7 {
					time.Sleep(late)
				}
			})
		})
		if len(got) != want || len(calls) != 10 {
			t.Errorf("%v late: %d calls, failed with %q", late, len(calls), got)
		}
		if want == 1 && !strings.Contains(got[0], "came back after 501ms, want at most 500ms") {
			t.Errorf("failed with %q", got)
		}
	}
}
