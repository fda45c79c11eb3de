package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// The environment that decides which backend a test gets.
const (
	envURL     = "REDIS_URL"                  // a shared server, redis:// or rediss://
	envRequire = "TRANSPARENCY_REQUIRE_REDIS" // "1": a real server or failure, miniredis never
	envForce   = "TRANSPARENCY_REDIS"         // "mini": miniredis, unless a real one is required
)

type choice struct {
	kind string
	url  string // for KindURL
	err  error  // for KindMini: a real server is required and this is why there is none
}

func choose() choice {
	if forcedMini() {
		return choice{kind: KindMini}
	}
	if url := os.Getenv(envURL); url != "" {
		return choice{kind: KindURL, url: url}
	}
	if _, err := exec.LookPath("redis-server"); err == nil {
		return choice{kind: KindServer}
	} else if required() {
		return choice{kind: KindMini, err: fmt.Errorf("redistest: %s=1, but %s is not set and there is no redis-server: %w", envRequire, envURL, err)}
	}
	return choice{kind: KindMini}
}

func required() bool   { return os.Getenv(envRequire) == "1" }
func forcedMini() bool { return os.Getenv(envForce) == "mini" && !required() }

// missing returns why there can be no redis-server of a test's own, or nil.
func missing() error {
	if forcedMini() {
		return errors.New("redistest: " + envForce + "=mini, and this test needs a redis-server")
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		return fmt.Errorf("redistest: this test needs a redis-server: %w", err)
	}
	return nil
}

// requireServer skips the test where there is no redis-server, and fails it where one is required.
func requireServer(tb testing.TB) {
	tb.Helper()
	err := missing()
	switch {
	case err == nil:
	case required():
		tb.Fatalf("%v (%s=1)", err, envRequire)
	default:
		tb.Skip(err)
	}
}
