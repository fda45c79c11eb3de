package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A process is one running redis-server.
type process struct {
	port    int
	version string
	admin   *redis.Client // one connection, made before any other
	cmd     *exec.Cmd
	log     bytes.Buffer  // its output, to be read once it exited
	exited  chan struct{} // closed when the process is gone and waited for
}

// startTimeout is generous: the machine may be compiling at the same time.
const startTimeout = 20 * time.Second

// startProcess starts redis-server on a free loopback port, without persistence.
func startProcess(dir string, args ...string) (*process, error) {
	var err error
	for range 10 {
		var port int
		if port, err = freePort(); err != nil {
			return nil, err
		}
		var p *process
		if p, err = startProcessAt(port, dir, args...); err == nil {
			return p, nil
		}
		if !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
	return nil, err
}

// startProcessAgain starts a redis-server on the port of one that was killed, and waits should
// the kernel take a moment to let that port go.
func startProcessAgain(port int, dir string, args ...string) (*process, error) {
	deadline := time.Now().Add(startTimeout)
	for {
		p, err := startProcessAt(port, dir, args...)
		if err == nil || !errors.Is(err, errPortTaken) || time.Now().After(deadline) {
			return p, err
		}
	}
}

// errPortTaken reports that someone else took the port between freePort and the server's bind.
var errPortTaken = errors.New("redistest: port taken")

func startProcessAt(port int, dir string, args ...string) (*process, error) {
	cmd := exec.Command("redis-server", append(slices.Clone(args), // a configuration file comes first
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port),
		"--save", "", "--appendonly", "no", "--dir", dir,
		"--repl-diskless-sync-delay", "0", // a replica in a test is the only one
	)...)
	cmd.SysProcAttr = dieWithParent()

	p := &process{port: port, cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	started := make(chan error)
	go func() {
		// The parent-death signal follows the thread that forked, not the process, so that thread
		// must live as long as the server.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed: the exit status says nothing
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("redistest: start redis-server: %w", err)
	}
	p.admin = redis.NewClient(adminOptions(p.addr()))
	if err := p.ready(); err != nil {
		p.kill()
		if strings.Contains(p.log.String(), "already in use") || errors.Is(err, errPortTaken) {
			return nil, errPortTaken
		}
		return nil, fmt.Errorf("redistest: redis-server on port %d: %w\n%s", port, err, p.log.String())
	}
	return p, nil
}

// ready waits until the server answers, and makes sure that it is this one: another server may
// have been quicker to bind the port.
func (p *process) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	// Not with the client at once: after a refused dial its pool looks again only every second.
	if err := poll(ctx, p.exited, func() error { return dial(ctx, p.addr()) }); err != nil {
		return err
	}
	if err := poll(ctx, p.exited, func() error { return p.admin.Ping(ctx).Err() }); err != nil {
		return err
	}
	info, err := p.admin.InfoMap(ctx, "server").Result()
	if err != nil {
		return err
	}
	server := info["Server"]
	if server["process_id"] != strconv.Itoa(p.cmd.Process.Pid) {
		return errPortTaken
	}
	p.version = server["redis_version"]
	if server["redis_mode"] == "sentinel" { // which has no CONFIG
		return nil
	}
	return p.admin.ConfigResetStat(ctx).Err()
}

func (p *process) addr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port))
}

func (p *process) String() string {
	return fmt.Sprintf("%s %s on %s", filepath.Base(p.cmd.Path), p.version, p.addr())
}

func (p *process) pause() error  { return pauseProcess(p.cmd.Process.Pid) }
func (p *process) resume() error { return resumeProcess(p.cmd.Process.Pid) }

// kill ends the process at once, even one that is paused, and returns when it is gone. It may be
// called again.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
	_ = p.admin.Close()
}

func dial(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// freePort returns a port nobody listens on now. Even 10000 above it, where a cluster node has its
// bus, it stays below the ranges from which systems give ports to outgoing connections, so that
// none of those takes it before the server does, or between Kill and Restart.
func freePort() (int, error) {
	var err error
	for range 100 {
		var l net.Listener
		port := 10000 + rand.IntN(12000)
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("redistest: no free port: %w", err)
}

// poll calls f until it returns nil. It gives up when ctx ends or stop is closed, with the last
// error of f that is not the end of ctx.
func poll(ctx context.Context, stop <-chan struct{}, f func() error) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	var err error
	for {
		last := f()
		if last == nil {
			return nil
		}
		if err == nil || ctx.Err() == nil {
			err = last
		}
		select {
		case <-tick.C:
		case <-stop:
			return fmt.Errorf("exited early: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", err)
		}
	}
}
