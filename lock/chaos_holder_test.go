//go:build unix

package lock_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/lock"
)

// envHolder makes the test binary a holder; it is the orders in JSON.
const envHolder = "LOCK_TEST_HOLDER"

// orders tell a process what to do.
type orders struct {
	Addr      string   // of the Redis of the locks, or
	Sentinels []string // of those who know it
	Master    string
	Guard     string // the Redis of the guarded resources
	Prefix    string
	TTL       time.Duration
	Pace      time.Duration // of what is not bound to the TTL
	Begun     int64         // when the chaos began, on the wall clock
	Each      time.Duration // how long one key is contended for
	Seed      uint64
}

const told = "holder: " // stands before an event in the output

// TestChaosHolder is what runs in the processes of the tests below, until its
// input ends. TestMain looks for goroutines that it leaves.
func TestChaosHolder(t *testing.T) {
	var o orders
	if err := json.Unmarshal([]byte(os.Getenv(envHolder)), &o); err != nil {
		t.Skip("for the processes of other tests")
	}
	redistest.Silence()
	var client *redis.Client
	if o.Addr != "" {
		client = redis.NewClient(plain(o.Addr))
	} else {
		client = redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: o.Master, SentinelAddrs: o.Sentinels,
			ContextTimeoutEnabled: true, MaxRetries: -1, DialTimeout: time.Second,
		})
	}
	defer client.Close()
	locker := lock.NewRedis(client, &lock.Options{TTL: o.TTL, Timeout: o.Pace, Prefix: o.Prefix})
	defer locker.Close()
	resource := redis.NewClient(plain(o.Guard))
	defer resource.Close()
	guard := lock.NewRedisGuard(resource, &lock.RedisGuardOptions{Prefix: o.Prefix + "guard:"})

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	h := &holder{
		rng:  rand.New(rand.NewPCG(o.Seed, 0)),
		pace: o.Pace,
		mutex: func() (string, lock.Mutex) {
			key := fmt.Sprint("k", (now()-o.Begun)/int64(o.Each))
			return key, locker.Mutex(key, nil)
		},
		note: func(e event) {
			line, err := json.Marshal(e)
			if err != nil {
				panic(err)
			}
			_, _ = os.Stdout.Write(fmt.Appendf(nil, "%s%s\n", told, line)) // one write, so whole
		},
		write: func(ctx context.Context, key, text string, fence uint64) error {
			_, err := guard.Do(ctx, o.written(key), fence, "RPUSH", []any{text})
			return err
		},
	}
	h.run(ctx)
}

func plain(addr string) *redis.Options {
	return &redis.Options{Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialTimeout: time.Second}
}

// written is the guarded resource of a key: the list of what was accepted.
func (o orders) written(key string) string { return o.Prefix + "written:" + key }

// A process is a holder in a process of its own.
type process struct {
	t      *testing.T
	client int
	cmd    *exec.Cmd
	stdin  io.Closer
	read   chan struct{} // closed when all of its output has been read

	mu  sync.Mutex // guards log
	log bytes.Buffer
}

func startHolder(t *testing.T, o orders, client int, c *chronicle) *process {
	t.Helper()
	order, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, client: client, read: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0], "-test.run=^TestChaosHolder$", "-test.timeout=1h")
	p.cmd.Env = append(os.Environ(), envHolder+"="+string(order))
	// In a group of its own, which the kernel hangs up when this process dies,
	// be it stopped or not.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.read)
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadString('\n')
			if text, ok := strings.CutPrefix(line, told); ok && err == nil {
				var e event
				if err := json.Unmarshal([]byte(text), &e); err != nil {
					t.Errorf("a holder wrote %q: %v", line, err)
				}
				c.add(client, e)
			} else {
				_, _ = p.Write([]byte(line))
			}
			if err != nil {
				return
			}
		}
	}()
	return p
}

// Write keeps what the process writes that is no event.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

// kill ends the process at once, also one that is stopped, and its lease with
// it.
func (p *process) kill(c *chronicle) {
	_ = p.cmd.Process.Kill()
	<-p.read
	_ = p.cmd.Wait()
	_ = p.stdin.Close()
	c.crashed(p.client)
}

// finish has the process end by itself, and reports what it leaves.
func (p *process) finish(c *chronicle) {
	p.t.Helper()
	_ = p.stdin.Close()
	select {
	case <-p.read:
	case <-time.After(30 * time.Second):
		p.t.Errorf("a holder does not end")
		p.kill(c)
		return
	}
	if err := p.cmd.Wait(); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.t.Errorf("a holder ended with %v:\n%s", err, p.log.String())
	}
	c.crashed(p.client) // if it should not have unlocked
}
