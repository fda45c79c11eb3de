package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/go-transparency/transparency/internal/redistest"
)

// A server is a redis-server of this program's own.
type server struct {
	version string
	addr    string
	pid     int           // of the process
	admin   *redis.Client // one connection, beside the measured ones
	infos   int64         // INFO commands that admin sent to count
	stop    func()
}

// startServer starts a redis-server on the loopback interface. An embedded
// Redis in this process would be measured with it, so there is no fallback.
func startServer(ctx context.Context) (s *server, err error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, errors.New("no redis-server on the PATH: install it (on Debian: apt-get install redis-server)")
	}
	// Without this redistest may fall back.
	if err := os.Setenv("TRANSPARENCY_REQUIRE_REDIS", "1"); err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil { // Example panics where it cannot start
			err = fmt.Errorf("start redis-server: %v", r)
		}
	}()
	client, stop := redistest.Example()
	s = &server{addr: client.Options().Addr, admin: client, stop: stop}
	info, err := client.InfoMap(ctx, "server").Result()
	if err == nil && info["Server"]["redis_version"] == "" {
		err = errors.New("it does not tell its version")
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	s.version = info["Server"]["redis_version"]
	if s.pid, err = strconv.Atoi(info["Server"]["process_id"]); err != nil || s.pid <= 1 {
		stop()
		return nil, fmt.Errorf("start redis-server: its process is %q", info["Server"]["process_id"])
	}
	return s, nil
}

// options returns the options of a client for one side: the same for all, so
// that a ratio compares the work and not the settings. They are the ones that
// the packages' pages ask for.
func (s *server) options(w *wire) *redis.Options {
	opts := &redis.Options{
		Addr:                     s.addr,
		PoolSize:                 10,
		ContextTimeoutEnabled:    true,
		MaxRetries:               -1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if w != nil {
		opts.Dialer = w.dial
	}
	return opts
}

func (s *server) flush(ctx context.Context) error {
	if err := s.admin.FlushAll(ctx).Err(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}

// commands returns how many commands the server has run, those that scripts
// call included and its own questions left out.
func (s *server) commands(ctx context.Context) (int64, error) {
	info, err := s.admin.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, fmt.Errorf("count commands: %w", err)
	}
	calls := sumCalls(info) - s.infos
	s.infos++ // Redis counts a command once it has run: this one stands in the next answer
	return calls, nil
}

// sumCalls adds up the calls in lines like "cmdstat_get:calls=3,usec=12,…".
func sumCalls(commandstats string) (sum int64) {
	for line := range strings.Lines(commandstats) {
		_, rest, ok := strings.Cut(line, ":calls=")
		if !ok {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		if n, err := strconv.ParseInt(calls, 10, 64); err == nil {
			sum += n
		}
	}
	return sum
}
