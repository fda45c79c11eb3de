package redistest_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/redistest"
)

const envHelper = "REDISTEST_HELPER"

// TestHelperStartsAndHangs is the process that TestServerDiesWithItsTest kills.
func TestHelperStartsAndHangs(t *testing.T) {
	if os.Getenv(envHelper) == "" {
		t.Skip("only as a process of its own")
	}
	fmt.Println(redistest.StartServer(t).Addr())
	select {}
}

func TestServerDiesWithItsTest(t *testing.T) {
	redistest.StartServer(t) // skips where there is none
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHelperStartsAndHangs$")
	cmd.Env = append(os.Environ(), envHelper+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	addr := lines.Text()
	if err := dial(addr); err != nil {
		t.Errorf("the server of the other process: %v", err)
	}
	cancel()
	_ = cmd.Wait() // killed
	waitFor(t, "the server is gone", func() bool { return dial(addr) != nil })
}

// The kernel sends the parent-death signal when the thread that forked ends.
func TestServerOutlivesTheThreadThatStartedIt(t *testing.T) {
	redistest.StartServer(t) // skips where there is none
	var (
		tid    int
		client *redis.Client
		done   func()
	)
	for client == nil {
		var wg sync.WaitGroup
		wg.Go(func() {
			runtime.LockOSThread()                          // and never unlocked: the thread ends with the goroutine,
			if tid = syscall.Gettid(); tid != os.Getpid() { // all but the main one
				client, done = redistest.Example()
			}
		})
		wg.Wait()
	}
	defer done()
	waitFor(t, "the thread has ended", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid))
		return os.IsNotExist(err)
	})
	for range 20 {
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Fatalf("PING error = %v, want nil", err)
		}
	}
}
