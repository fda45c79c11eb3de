package rediskit_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/rediskit"
	"github.com/go-transparency/transparency/internal/redistest"
)

var incr = rediskit.NewScript(`return redis.call("INCRBY", KEYS[1], ARGV[1])`)

func TestScript(t *testing.T) {
	s := redistest.Start(t)
	client := s.Client(t)
	key := s.Prefix() + "n"
	for i, want := range []int64{2, 4} {
		if got, err := incr.Run(t.Context(), client, []string{key}, 2); got != want || err != nil {
			t.Errorf("run %d = %v, %v, want %d, nil", i, got, err, want)
		}
	}
}

func TestScriptAfterFlush(t *testing.T) {
	s := redistest.StartServer(t)
	client := s.Client(t)
	key := s.Prefix() + "n"
	if _, err := incr.Run(t.Context(), client, []string{key}, 1); err != nil {
		t.Fatal(err)
	}
	if err := client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := incr.Run(t.Context(), client, []string{key}, 1); got != int64(2) || err != nil {
		t.Errorf("run after SCRIPT FLUSH = %v, %v, want 2, nil", got, err)
	}
}

func TestScriptOnCluster(t *testing.T) {
	c := redistest.StartCluster(t)
	client := c.Client(t)
	for _, entity := range []string{"job", "a{b}c", "}", "50%"} {
		keys := []string{rediskit.Key("t:", entity, ""), rediskit.Key("t:", entity, ":more")}
		two := rediskit.NewScript(`redis.call("SET", KEYS[2], "x", "PX", 60000); return redis.call("INCRBY", KEYS[1], ARGV[1])`)
		if got, err := two.Run(t.Context(), client, keys, 7); got != int64(7) || err != nil {
			t.Errorf("run on the keys of %q = %v, %v, want 7, nil", entity, got, err)
		}
	}
}

// A client set to retry must not send a command that writes a second time:
// the server here executes it and drops the connection before it answers.
func TestOnceIsSentOnce(t *testing.T) {
	var evals, gets atomic.Int64
	addr := serve(t, func(cmd string) bool {
		switch {
		case strings.EqualFold(cmd, "evalsha"):
			evals.Add(1)
			return false
		case strings.EqualFold(cmd, "get"):
			gets.Add(1)
			return false
		}
		return true
	})
	redistest.Silence()
	client := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true, MaxRetries: 3,
		MinRetryBackoff: time.Millisecond, MaxRetryBackoff: time.Millisecond})
	t.Cleanup(func() { client.Close() })

	_, err := rediskit.Do(t.Context(), rediskit.NewGate(0), rediskit.Writes, func(ctx context.Context) (any, error) {
		return incr.Run(ctx, client, []string{"n"}, 1)
	}, nil)
	if !errors.Is(err, transparency.ErrUncertain) || !errors.Is(err, io.EOF) {
		t.Errorf("Do = %v, want ErrUncertain and io.EOF", err)
	}
	if got := evals.Load(); got != 1 {
		t.Errorf("the script was sent %d times, want 1", got)
	}
	_, err = client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		return p.Process(t.Context(), incr.Cmd(t.Context(), []string{"n"}, 1))
	})
	if got := evals.Load(); err == nil || got != 2 {
		t.Errorf("in a pipeline: error %v after %d sends in all, want an error after 2", err, got)
	}
	if err := client.Get(t.Context(), "n").Err(); err == nil {
		t.Error("GET = nil error, want EOF")
	}
	if got := gets.Load(); got != 4 {
		t.Errorf("GET was sent %d times, want 4: else this test proves nothing", got)
	}
}

// serve answers each command +OK while more says so, and else hangs up.
func serve(t *testing.T, more func(cmd string) bool) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				for {
					cmd, err := readCommand(r)
					if err != nil || !more(cmd) {
						return
					}
					reply := "+OK\r\n"
					if strings.EqualFold(cmd, "hello") {
						reply = "-ERR unknown command\r\n" // the client falls back to RESP2
					}
					io.WriteString(conn, reply)
				}
			}()
		}
	}()
	return l.Addr().String()
}

// readCommand reads one RESP array and returns its first element.
func readCommand(r *bufio.Reader) (string, error) {
	line := func() (string, error) {
		s, err := r.ReadString('\n')
		return strings.TrimRight(s, "\r\n"), err
	}
	head, err := line()
	if err != nil {
		return "", err
	}
	n := 0
	for _, c := range strings.TrimPrefix(head, "*") {
		n = n*10 + int(c-'0')
	}
	first := ""
	for i := range n {
		if _, err := line(); err != nil {
			return "", err
		}
		text, err := line()
		if err != nil {
			return "", err
		}
		if i == 0 {
			first = text
		}
	}
	return first, nil
}

func TestRefusedDialIsUnavailable(t *testing.T) {
	redistest.Silence()
	for _, retries := range []int{-1, 3} {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: retries, DialerRetries: 1,
			MinRetryBackoff: time.Millisecond, MaxRetryBackoff: time.Millisecond})
		t.Cleanup(func() { client.Close() })
		_, err := rediskit.Do(t.Context(), rediskit.NewGate(0), rediskit.Writes, func(ctx context.Context) (any, error) {
			return incr.Run(ctx, client, []string{"n"}, 1)
		}, nil)
		if !transparency.Retryable(err) {
			t.Errorf("retries %d: a write to a closed port = %v, want a retryable error", retries, err)
		}
	}
}

func TestCheckClient(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	if err := rediskit.CheckClient(client.Pipeline()); !errors.Is(err, transparency.ErrInvalid) {
		t.Errorf("CheckClient(a pipeline) = %v, want ErrInvalid", err)
	}
	if err := rediskit.CheckClient(client); err != nil {
		t.Errorf("CheckClient(a client) = %v, want nil", err)
	}
	var none *redis.Client
	for _, client := range []any{nil, none, (*redis.ClusterClient)(nil)} {
		if err := rediskit.CheckClient(client); !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("CheckClient(%T nil) = %v, want ErrInvalid", client, err)
		}
	}
}
