package location_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/redistest"
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
	select {
	case got := <-said:
		if got != want {
			t.Fatalf("%s says %q, want %q", host, got, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("%s does not say %q", host, want)
	}
}

// LO-5: an instance that is killed disappears within its TTL, and the others
// stay.
func TestProcessKilled(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	p, _ := startInstance(t, s.Addr(), "h1")
	startInstance(t, s.Addr(), "h2")
	r := newRegistry(t, s.Client(t), location.Options{TTL: processTTL})
	if got, err := hosts(r); err != nil || fmt.Sprint(got) != "[h1 h2]" {
		t.Fatalf("Resolve = %v, %v, want both", got, err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	eventually(t, "it disappears", 10*time.Second, func() bool {
		got, err := hosts(r)
		return err == nil && fmt.Sprint(got) == "[h2]"
	})
	took := time.Since(killed)
	t.Logf("gone after %v", took)
	if took > 2*processTTL { // the suite knows it to the millisecond, in fake time
		t.Errorf("gone after %v, want about its TTL of %v at most", took, processTTL)
	}
}

// LO-1, on a real server: after an outage of twice the TTL every instance is
// back without a restart, whether the server lost its data or stood still.
func TestProcessOutage(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]func(t *testing.T, s *redistest.Server){
		"killed, and started empty": func(t *testing.T, s *redistest.Server) {
			s.Kill()
			time.Sleep(2 * processTTL) // the outage itself
			s.Restart(t)
		},
		"stopped, and continued": func(_ *testing.T, s *redistest.Server) {
			s.Pause()
			time.Sleep(2 * processTTL)
			s.Resume()
		},
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
			if got, err := hosts(r); err != nil || !slices.Equal(got, want) {
				t.Fatalf("Resolve = %v, %v, want %v", got, err, want)
			}
			outage(t, s)
			end := time.Now()
			for i, said := range all {
				hears(t, want[i], said, "lost")
				hears(t, want[i], said, "registered")
			}
			eventually(t, "all are back", 10*time.Second, func() bool {
				snapshot, err := r.Resolve(t.Context(), service)
				return err == nil && !snapshot.Stale() && snapshot.Len() == len(want)
			})
			t.Logf("all are back after %v", time.Since(end))
		})
	}
}
