package lab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Redis returns the client of this run after a PING, so that a setting that is
// wrong is told before anything else happens. It is closed by [Main].
func (e *Env) Redis(ctx context.Context) (*redis.Client, error) {
	client, err := e.Client()
	if err != nil {
		return nil, err
	}
	ping, cancel := context.WithTimeout(ctx, dialTimeout+time.Second)
	defer cancel()
	if err := client.Ping(ping).Err(); err != nil {
		return nil, e.Advise("reach Redis", err)
	}
	return client, nil
}

// Client returns the client of this run without a word to the server. Where no
// server is configured it starts one in this process and says so.
func (e *Env) Client() (*redis.Client, error) {
	opts, err := e.settings()
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client != nil {
		return e.client, nil
	}
	if opts == nil {
		if e.embedded, err = startEmbedded(); err != nil {
			return nil, err
		}
		opts = tune(&redis.Options{Addr: e.embedded.Addr()})
		fmt.Fprintln(e.Out, "Redis: none is configured (REDIS_URL, REDIS_HOST), so one runs inside this process and ends with it.")
	}
	e.client = newClient(opts)
	return e.client, nil
}

// ClientAt returns a client of another server, with the user, the password and
// the TLS of the run's own. The caller closes it.
func (e *Env) ClientAt(addr string) (*redis.Client, error) {
	opts, err := e.settings()
	if err != nil {
		return nil, err
	}
	at := tune(&redis.Options{Addr: addr})
	if opts != nil {
		at.Username, at.Password = opts.Username, opts.Password
	}
	if !validAddr(at) {
		return nil, errAddr
	}
	if opts != nil && opts.TLSConfig != nil {
		host, _, _ := net.SplitHostPort(addr)
		at.TLSConfig = opts.TLSConfig.Clone()
		at.TLSConfig.ServerName = host
	}
	return newClient(at), nil
}

// Where returns the address of the configured Redis, without credentials.
func (e *Env) Where() string {
	if opts, err := e.settings(); err == nil && opts != nil {
		return opts.Addr
	}
	return "the embedded Redis"
}

func startEmbedded() (*miniredis.Miniredis, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // keys expire as time goes by
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("cannot start the embedded Redis on 127.0.0.1: %w", err)
	}
	return m, nil
}

// sharedPrefix is for what outlives the program that writes it.
const sharedPrefix = "lab:"

// Prefix returns what the program puts before its keys. It is new for each run,
// handed to the child processes, and what is under it is removed at the end.
func (e *Env) Prefix() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.used = true
	return e.prefix
}

// Keep makes a program that was started by hand use one prefix for all its runs
// and leave its keys to expire. In a child process it does nothing.
func (e *Env) Keep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.remove {
		e.prefix, e.remove = sharedPrefix, false
	}
}

func keyPrefix(lookup func(string) (string, bool)) (prefix string, remove bool) {
	if prefix, ok := lookup(envPrefix); ok {
		return prefix, false // the parent's
	}
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return sharedPrefix + hex.EncodeToString(b[:]) + ":", true
}

// removeKeys removes every key under the prefix. Requires e.mu and e.client.
func (e *Env) removeKeys(ctx context.Context) error {
	scan := e.client.Scan(ctx, 0, e.prefix+"*", 1000).Iterator()
	for scan.Next(ctx) {
		if err := e.client.Unlink(ctx, scan.Val()).Err(); err != nil {
			return e.Advise("remove the keys under "+e.prefix, err)
		}
	}
	if err := scan.Err(); err != nil {
		return e.Advise("remove the keys under "+e.prefix, err)
	}
	return nil
}
