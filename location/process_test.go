package location_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/location"
)

// envInstance makes the test binary an instance: "address host".
const envInstance = "LOCATION_TEST_INSTANCE"

const processTTL = time.Second

// TestInstance is what runs in the processes that the tests below start: it
// registers, says so, and tells of every change until its input ends.
func TestInstance(t *testing.T) {
	addr, host, ok := strings.Cut(os.Getenv(envInstance), " ")
	if !ok {
		t.Skip("for the processes of other tests")
	}
	redistest.Silence()
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	defer client.Close()
	r := location.NewRedis(client, &location.Options{TTL: processTTL})
	defer r.Close()
	g, err := r.Register(t.Context(), service, at(host))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	}()
	for c := range g.Changes(ctx) {
		fmt.Println("instance:", c.State)
	}
}

// startInstance starts an instance in a process of its own, and returns the
// process and what it says of itself.
func startInstance(t *testing.T, addr, host string) (*os.Process, <-chan string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestInstance$", "-test.v")
	cmd.Env = append(os.Environ(), envInstance+"="+addr+" "+host)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 100)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if state, ok := strings.CutPrefix(lines.Text(), "instance: "); ok {
				said <- state
			}
		}
	}()
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	hears(t, host, said, "registered")
	return cmd.Process, said
}

func hears(t *testing.T, host string, said <-chan string, want string) {
	t.Helper()
	if got := testkit.Receive(t, host+" says "+want, said); got != want {
		t.Fatalf("%s says %q, want %q", host, got, want)
	}
}

// sees waits until r finds these hosts.
func sees(t *testing.T, r *location.Registry, want string) {
	t.Helper()
	eventually(t, "there are "+want, testkit.Limit, func() bool {
		got, err := hosts(r)
		return err == nil && fmt.Sprint(got) == want
	})
}

// LO-5: an instance that is killed disappears within its TTL, and the others
// stay.
func TestProcessKilled(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	p, _ := startInstance(t, s.Addr(), "h1")
	startInstance(t, s.Addr(), "h2")
	r := newRegistry(t, s.Client(t), location.Options{TTL: processTTL})
	sees(t, r, "[h1 h2]")
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	// What is left of its lease is the server's to say. That a lease ends when
	// it ends the suite knows to the millisecond, in fake time.
	client := s.Client(t)
	now := client.Time(t.Context()).Val()
	if end := client.ZScore(t.Context(), "location:{user-service}:live", "h1").Val(); int64(end) > now.Add(processTTL).UnixMilli() {
		t.Errorf("the lease of one that was killed ends at %v, more than its TTL after %v", time.UnixMilli(int64(end)), now)
	}
	sees(t, r, "[h2]")
}

// LO-1, on a real server: after an outage that all leases have run out in every
// instance is back without a restart, whether the server lost its data or stood
// still.
func TestProcessOutage(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]struct{ begin, end func(s *redistest.Server) }{
		"killed, and started empty": {(*redistest.Server).Kill, func(s *redistest.Server) { s.Restart(t) }},
		"stopped, and continued":    {(*redistest.Server).Pause, (*redistest.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartServer(t)
			var want []string
			var all []<-chan string
			for i := range 3 {
				host := fmt.Sprint("h", i)
				_, said := startInstance(t, s.Addr(), host)
				want, all = append(want, host), append(all, said)
			}
			r := newRegistry(t, s.Client(t), location.Options{TTL: processTTL})
			sees(t, r, fmt.Sprint(want))
			outage.begin(s)
			for i, said := range all {
				hears(t, want[i], said, "lost")
			}
			outage.end(s)
			for i, said := range all {
				hears(t, want[i], said, "registered")
			}
			eventually(t, "all are back", testkit.Limit, func() bool {
				snapshot, err := r.Resolve(t.Context(), service)
				return err == nil && !snapshot.Stale() && snapshot.Len() == len(want)
			})
		})
	}
}
