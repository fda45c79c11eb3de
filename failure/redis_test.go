package failure_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/failure"
	"github.com/go-transparency/transparency/internal/faultnet"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
)

func options() failure.SharedOptions {
	return failure.SharedOptions{
		Breaker: failure.BreakerOptions{Name: "pay", Failures: 3, Ratio: -1, OpenFor: 300 * time.Millisecond},
		Poll:    50 * time.Millisecond, Timeout: 500 * time.Millisecond,
	}
}

func newRedis(t *testing.T, client failure.RedisClient, opts failure.SharedOptions) *failure.SharedBreaker {
	b := failure.NewRedisBreaker(client, &opts)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func newClient(t *testing.T, opts *redis.Options, addr string) *redis.Client {
	o := *opts
	o.Addr = addr
	client := redis.NewClient(&o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// fail makes n calls that fail.
func fail(t *testing.T, b failure.Policy, n int) {
	t.Helper()
	for range n {
		if _, err := try(t.Context(), b, errBoom); !errors.Is(err, errBoom) {
			t.Fatalf("Call error = %v, want boom", err)
		}
	}
}

func in(b *failure.SharedBreaker, s failure.State) func() bool {
	return func() bool { return b.State() == s }
}

// fleet starts three instances, whose breaker two have opened.
func fleet(t *testing.T, opts failure.SharedOptions, clients ...failure.RedisClient) []*failure.SharedBreaker {
	var all []*failure.SharedBreaker
	for _, c := range clients {
		b := newRedis(t, c, opts)
		_, _ = try(t.Context(), b)
		all = append(all, b)
	}
	last := all[len(all)-1]
	testkit.Eventually(t, "all have been heard of", testkit.Limit, func() bool { return last.Stats().Live == len(all) })
	for _, b := range all[:2] {
		fail(t, b, 3)
	}
	testkit.Eventually(t, "the fleet is open", testkit.Limit, in(last, failure.StateOpen))
	return all
}

// Every key that the page names is there while open, has a TTL, and is in one
// slot; no other is.
func TestKeys(t *testing.T) {
	s := redistest.Start(t)
	client, opts := s.Client(t), options()
	opts.Prefix, opts.Breaker.OpenFor = s.Prefix(), time.Minute
	b := newRedis(t, client, opts)
	fail(t, b, 3)
	keys := map[string]bool{}
	look := func() {
		for _, key := range client.Keys(t.Context(), s.Prefix()+"*").Val() {
			keys[strings.TrimPrefix(key, s.Prefix())] = true // -2: gone since
			if ttl := client.PTTL(t.Context(), key).Val(); ttl != -2 && ttl <= 0 || ttl > time.Hour+2*time.Minute {
				t.Errorf("%q has the TTL %v", key, ttl)
			}
		}
	}
	testkit.Eventually(t, "the vote is there", testkit.Limit, func() bool { look(); return keys["{pay}:votes"] })
	other := newRedis(t, client, opts)
	fail(t, other, 3)
	testkit.Eventually(t, "the breaker is there", testkit.Limit, func() bool { look(); return keys["{pay}"] })
	for _, want := range []string{"{pay}", "{pay}:live", "{pay}:votes"} {
		if !keys[want] {
			t.Errorf("there is no key %q", want)
		}
		delete(keys, want)
	}
	if len(keys) > 0 {
		t.Errorf("there are also %v", keys)
	}
}

// FA-10: with a Redis that is stopped, calls are as fast as before, for any
// number of callers, and Close does not hang.
func TestHungRedis(t *testing.T) {
	const callers, calls = 1000, 100
	s := redistest.StartServer(t)
	b := newRedis(t, s.Client(t), options())
	round := func() time.Duration {
		start := time.Now()
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range calls {
					if _, err := try(t.Context(), b); err != nil {
						t.Errorf("Call error = %v", err)
						return
					}
				}
			})
		}
		wg.Wait()
		return time.Since(start)
	}
	round()
	before, goroutines := round(), runtime.NumGoroutine()
	s.Pause()
	after := round()
	for range 9 { // the machine may have other work, but not each time
		after = min(after, round())
	}
	t.Logf("%d calls took %v before, %v after", callers*calls, before, after)
	if after > 3*before+50*time.Millisecond {
		t.Errorf("%d calls took %v, and %v with Redis stopped", callers*calls, before, after)
	}
	testkit.Eventually(t, "an exchange is missed", testkit.Limit, func() bool { return b.Stats().Missed > 0 })
	fail(t, b, 3)
	if _, err := try(t.Context(), b); !errors.Is(err, failure.ErrOpen) {
		t.Errorf("Call error = %v, want ErrOpen", err)
	}
	testkit.Eventually(t, "it is closed again", testkit.Limit, func() bool { _, err := try(t.Context(), b); return err == nil })
	if n := runtime.NumGoroutine() - goroutines; n > 16 {
		t.Errorf("%d goroutines more than before", n)
	}
	start := time.Now()
	_ = b.Close()
	if took := time.Since(start); took > 10*time.Second { // a Timeout and what a busy machine adds
		t.Errorf("Close took %v", took)
	}
}

// The call path sends nothing: commands are those of time, not of calls.
func TestCallsSendNothing(t *testing.T) {
	s := redistest.StartServer(t)
	opts := options()
	opts.Poll = time.Hour
	b := newRedis(t, s.Client(t), opts)
	_, _ = try(t.Context(), b)
	testkit.Eventually(t, "it has begun", testkit.Limit, func() bool { return b.Stats().Exchanged >= 2 }) // its start, and what it hears
	before := s.Calls(t)
	for range 50_000 {
		if _, err := try(t.Context(), b); err != nil {
			t.Fatalf("Call error = %v", err)
		}
	}
	if n := s.Calls(t) - before; n > 8 { // a ping of the subscription, at worst
		t.Errorf("50,000 calls came with %d commands", n)
	}
}

// FA-10, FA-11: faults of the network and of the server, in the midst of it.
func TestFaults(t *testing.T) {
	for name, fault := range map[string]func(t *testing.T, s *redistest.Server, p *faultnet.Proxy) (mend func()){
		"a flush": func(t *testing.T, s *redistest.Server, _ *faultnet.Proxy) func() {
			if err := s.Client(t).FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			return func() {}
		},
		"a restart": func(t *testing.T, s *redistest.Server, _ *faultnet.Proxy) func() {
			s.Kill()
			return func() { s.Restart(t) }
		},
		"silence": func(_ *testing.T, _ *redistest.Server, p *faultnet.Proxy) func() {
			p.Freeze(faultnet.ToClient)
			return func() { p.Thaw(faultnet.ToClient) }
		},
		"slowness": func(_ *testing.T, _ *redistest.Server, p *faultnet.Proxy) func() {
			p.Delay(faultnet.Both, 50*time.Millisecond)
			return func() { p.Delay(faultnet.Both, 0) }
		},
		"resets": func(_ *testing.T, _ *redistest.Server, p *faultnet.Proxy) func() {
			p.Refuse(true)
			p.Reset()
			return func() { p.Refuse(false) }
		},
		"another version": func(t *testing.T, s *redistest.Server, _ *faultnet.Proxy) func() {
			client := s.Client(t)
			client.HSet(t.Context(), "breaker:{pay}", "v", "2")
			return func() { client.Del(context.Background(), "breaker:{pay}") }
		},
		"another type": func(t *testing.T, s *redistest.Server, _ *faultnet.Proxy) func() {
			client := s.Client(t)
			client.Set(t.Context(), "breaker:{pay}", "text", 0)
			return func() { client.Del(context.Background(), "breaker:{pay}") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartServer(t)
			p := faultnet.New(t, s.Addr())
			one, two, three := newClient(t, s.Options(), p.Addr()), newClient(t, s.Options(), p.Addr()), newClient(t, s.Options(), p.Addr())
			all := fleet(t, options(), one, two, three)
			mend := fault(t, s, p)
			for i, b := range all { // each acts locally: open for its time, then a probe, then closed
				start := time.Now()
				testkit.Eventually(t, fmt.Sprint(i, " calls again"), testkit.Limit, func() bool { _, err := try(t.Context(), b); return err == nil })
				testkit.Eventually(t, fmt.Sprint(i, " is closed"), testkit.Limit, in(b, failure.StateClosed))
				t.Logf("instance %d calls again after %v", i, time.Since(start))
			}
			mend()
			// In a while all know again: those who were refused the exchange too.
			testkit.Eventually(t, "all are heard of", testkit.Limit, func() bool {
				for _, b := range all {
					_, _ = try(t.Context(), b)
					if b.Stats().Live != 3 || b.State() != failure.StateClosed {
						return false
					}
				}
				return true
			})
			for _, b := range all[:2] {
				fail(t, b, 3)
			}
			testkit.Eventually(t, "the fleet opens as before", testkit.Limit, in(all[2], failure.StateOpen))
		})
	}
}

// Nothing that is printed holds the password.
func TestNoSecrets(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Password: "hunter2", DialerRetries: 1, MaxRetries: -1})
	defer client.Close()
	opts := options()
	b := newRedis(t, client, opts)
	_, err := failure.NewRedisDriver(client, &opts).Exchange(t.Context(), "pay", failure.Report{Instance: "i", TTL: time.Second})
	if !errors.Is(err, transparency.ErrUnavailable) {
		t.Errorf("Exchange error = %v, want ErrUnavailable", err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, v := range []any{b, failure.NewRedisDriver(client, &opts), err} {
			if text := fmt.Sprintf(format, v); strings.Contains(text, "hunter2") {
				t.Errorf("%s of %T = %q", format, v, text)
			}
		}
	}
}

func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster takes seconds to start")
	}
	t.Parallel()
	c := redistest.StartCluster(t)
	opts := options()
	opts.Prefix = c.Prefix()
	all := fleet(t, opts, c.Client(t), c.Client(t), c.Client(t))
	for _, b := range all {
		testkit.Eventually(t, "it calls again", testkit.Limit, func() bool { _, err := try(t.Context(), b); return err == nil })
	}
}

// Times without end wrap round to no past.
func TestEndlessTimesInRedis(t *testing.T) {
	const endless = math.MaxInt64
	s := redistest.Start(t)
	opts := options()
	opts.Prefix, opts.Quorum, opts.Poll = s.Prefix(), 1, endless
	opts.Breaker.OpenFor, opts.Breaker.ProbeTimeout = endless, endless
	b := newRedis(t, s.Client(t), opts)
	fail(t, b, 3)
	testkit.Eventually(t, "the fleet knows", testkit.Limit, func() bool { return s.Client(t).HGet(t.Context(), s.Prefix()+"{pay}", "open").Val() == "1" })
	testkit.Eventually(t, "and it is heard", testkit.Limit, func() bool { return b.Stats().Exchanged >= 2 })
	if got := b.Stats(); got.State != failure.StateOpen || got.Live != 1 || got.Missed != 0 {
		t.Errorf("Stats = %+v, want open and live", got)
	}
}

// A user that may not use a command leaves no key without a time to live.
func TestWeakUser(t *testing.T) {
	s := redistest.StartServer(t)
	admin, ctx := s.Client(t), t.Context()
	for _, denied := range []string{"pexpire", "zremrangebyscore", "zcard", "zadd", "hset", "del", "zrem", "exists", "time", "publish", "subscribe"} {
		if err := admin.Do(ctx, "ACL", "SETUSER", "weak", "reset", "on", ">secret-word", "~*", "&*", "+@all", "-"+denied).Err(); err != nil {
			t.Fatal(err)
		}
		opts := s.Options()
		opts.Username, opts.Password = "weak", "secret-word"
		o := options()
		o.Quorum, o.Breaker.OpenFor = 1, time.Minute
		o.Breaker.Name = denied
		b := newRedis(t, newClient(t, opts, s.Addr()), o)
		fail(t, b, 3)
		testkit.Eventually(t, denied, testkit.Limit, func() bool { return b.Stats().Missed > 0 || b.Stats().Exchanged > 1 })
		for _, key := range admin.Keys(ctx, "*").Val() {
			if left := admin.PTTL(ctx, key).Val(); left == -1 {
				t.Errorf("without %s %q has no time to live", denied, key)
			}
		}
		_ = b.Close()
		admin.FlushAll(ctx)
	}
}

// Close does not wait for what goes on whatever its context says: a dial that
// hangs, and a handshake that gets no answer.
func TestCloseWhileConnecting(t *testing.T) {
	for _, contexts := range []bool{true, false} {
		for name, dialer := range map[string]func(release <-chan struct{}) func(context.Context, string, string) (net.Conn, error){
			"dial": func(release <-chan struct{}) func(context.Context, string, string) (net.Conn, error) {
				return func(context.Context, string, string) (net.Conn, error) {
					<-release
					return nil, io.ErrClosedPipe
				}
			},
			"handshake": func(release <-chan struct{}) func(context.Context, string, string) (net.Conn, error) {
				return func(context.Context, string, string) (net.Conn, error) {
					here, there := net.Pipe()
					go func() {
						<-release
						_ = there.Close()
					}()
					go func() { _, _ = io.Copy(io.Discard, there) }()
					return here, nil
				}
			},
		} {
			t.Run(fmt.Sprintf("%s, contexts %v", name, contexts), func(t *testing.T) {
				release := make(chan struct{})
				client := redis.NewClient(&redis.Options{
					Addr: "nowhere", Dialer: dialer(release), ContextTimeoutEnabled: contexts,
					DialTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute, DialerRetries: 1, MaxRetries: -1,
				})
				t.Cleanup(func() { _ = client.Close() })
				opts := options()
				opts.Timeout = 50 * time.Millisecond
				b := failure.NewRedisBreaker(client, &opts)
				if _, err := try(t.Context(), b); err != nil {
					t.Errorf("Call error = %v", err)
				}
				testkit.Eventually(t, "it has tried", testkit.Limit, func() bool { return b.Stats().Missed > 0 })
				closed := make(chan struct{})
				go func() {
					defer close(closed)
					_ = b.Close()
				}()
				select {
				case <-closed:
				case <-time.After(20 * time.Second): // less than the client's timeouts, and much more than ours
					t.Error("Close waits for the client")
				}
				close(release)
				<-closed
			})
		}
	}
}
