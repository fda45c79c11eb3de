//go:build unix

package relocation_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/relocation"
	"github.com/go-transparency/transparency/relocation/relocationtest"
)

// envInstance makes the test binary a server; it is an instance in JSON.
const envInstance = "RELOCATION_TEST_INSTANCE"

// An instance is a server process of the tests of this file.
type instance struct {
	Name   string
	Redis  string
	Prefix string
	Key    []byte
	// Rough has the effects of messages exactly once in Redis, and everything
	// else in less time.
	Rough bool
}

const listening = "listening on " // stands before the address in the output

// A handled is what an instance notes in Redis of each message: in the order
// of the store, whichever process it was.
type handled struct {
	Seq, Generation uint64
	Again           bool
	Data            string
}

func (i instance) notes(client string) string { return i.Prefix + "{n}notes:" + client }
func (i instance) name(client string) string  { return i.Prefix + "{n}session:" + client }

// handle notes a message, which is "client number", and answers it.
func (i instance) handle(c *redis.Client) relocation.Handler {
	return func(ctx context.Context, s *relocation.Session, m relocation.Message) error {
		client, _, _ := strings.Cut(string(m.Data), " ")
		note, err := json.Marshal(handled{m.Seq, s.Generation(), m.Redelivered, string(m.Data)})
		if err != nil {
			return err
		}
		_, err = c.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.RPush(ctx, i.notes(client), note)
			p.Set(ctx, i.name(client), s.ID(), 0)
			return nil
		})
		if err != nil {
			return err
		}
		return s.Reply(append([]byte("re "), m.Data...))
	}
}

// once notes a message exactly once, whoever else may think it is his.
func (i instance) once(position *relocation.RedisPosition) relocation.Handler {
	return func(ctx context.Context, s *relocation.Session, m relocation.Message) error {
		client, _, _ := strings.Cut(string(m.Data), " ")
		note, err := json.Marshal(handled{m.Seq, s.Generation(), m.Redelivered, string(m.Data)})
		if err != nil {
			return err
		}
		_, err = position.Run(ctx, s, m.Seq, `redis.call('RPUSH', KEYS[1], ARGV[1]); redis.call('SET', KEYS[2], ARGV[2])`,
			[]string{i.notes(client), i.name(client)}, []any{note, s.ID()})
		return err
	}
}

// check hands what was noted of a client's messages to a checker.
func (i instance) check(ctx context.Context, t *testing.T, c *redis.Client, client string, checker *relocationtest.Checker) {
	t.Helper()
	notes, err := c.LRange(ctx, i.notes(client), 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, note := range notes {
		var h handled
		if err := json.Unmarshal([]byte(note), &h); err != nil {
			t.Fatal(err)
		}
		checker.Handle(client+" up", relocationtest.Handling{
			Seq: h.Seq, Payload: h.Data, Redelivered: h.Again, Generation: h.Generation,
		})
	}
}

// TestRollingInstance is what runs in the processes of the tests below. It
// drains to the addresses in the first line of its input, and ends.
func TestRollingInstance(t *testing.T) {
	var i instance
	if err := json.Unmarshal([]byte(os.Getenv(envInstance)), &i); err != nil {
		t.Skip("for the processes of other tests")
	}
	redistest.Silence()
	client := redis.NewClient(&redis.Options{Addr: i.Redis, ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 32})
	defer client.Close()
	handle, opts := i.handle(client), &relocation.HubOptions{Name: i.Name, Keys: [][]byte{i.Key}}
	if i.Rough {
		position := relocation.NewRedisPosition(client, &relocation.RedisPositionOptions{Prefix: i.Prefix, Tag: "n"})
		handle = i.once(position)
		opts.Mode, opts.Position = relocation.Atomic, position.Position
		opts.Lease, opts.HandoffGrace = time.Second, 300*time.Millisecond
		opts.Ping, opts.Silence = 500*time.Millisecond, 500*time.Millisecond
	}
	hub := relocation.NewHub(relocation.NewRedisStore(client, &relocation.RedisOptions{Prefix: i.Prefix}), handle, opts)
	defer hub.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: hub.WebSocket(nil), ReadHeaderTimeout: time.Minute}
	defer server.Close()
	go server.Serve(listener)
	fmt.Printf("%sws://%s/\n", listening, listener.Addr())

	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return // the test has ended
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = hub.Drain(ctx, &relocation.DrainOptions{
		Targets: strings.Fields(line), Spread: 300 * time.Millisecond, Deadline: 30 * time.Second,
	})
	if err != nil && !i.Rough || hub.Ready() {
		t.Errorf("Drain = %v, Ready = %t afterwards", err, hub.Ready())
	}
}

// A process is a running instance.
type process struct {
	addr  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan error

	mu  sync.Mutex // guards log
	log strings.Builder
}

func startInstance(t *testing.T, i instance) *process {
	t.Helper()
	env, err := json.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{done: make(chan error, 1)}
	p.cmd = exec.Command(os.Args[0], "-test.run=^TestRollingInstance$", "-test.timeout=10m")
	p.cmd.Env = append(os.Environ(), envInstance+"="+string(env))
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = p.cmd.Stdout
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	addr := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if a, ok := strings.CutPrefix(lines.Text(), listening); ok {
				addr <- a
				continue
			}
			p.mu.Lock()
			p.log.WriteString(lines.Text() + "\n")
			p.mu.Unlock()
		}
		p.done <- p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() { // unless it has ended
		_ = p.stdin.Close()
		for range p.done {
		}
	})
	select {
	case p.addr = <-addr:
	case err := <-p.done:
		t.Fatalf("instance %s ended: %v\n%s", i.Name, err, p.output())
	case <-time.After(testkit.Limit):
		t.Fatalf("instance %s does not start\n%s", i.Name, p.output())
	}
	return p
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// drain has the process move its clients to targets, and awaits its end.
func (p *process) drain(t *testing.T, targets []string) {
	t.Helper()
	if _, err := fmt.Fprintln(p.stdin, strings.Join(targets, " ")); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "the end of a drained instance", p.done); err != nil {
		t.Errorf("a drained instance ended with %v\n%s", err, p.output())
	}
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = testkit.Receive(t, "the end of a killed instance", p.done)
}

// Servers are what clients are told of: the addresses of the moment.
type servers struct {
	mu    sync.Mutex // guards addrs
	addrs []string
}

func (s *servers) list(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.addrs), nil
}

func (s *servers) add(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addrs = append(s.addrs, addr)
}

func (s *servers) remove(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addrs = slices.DeleteFunc(s.addrs, func(a string) bool { return a == addr })
}
