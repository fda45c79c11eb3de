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

func required() bool   { return os.Getenv(envRequire) == "1" }
func forcedMini() bool { return os.Getenv(envForce) == "mini" && !required() }

// sharedURL returns the URL of the server to share, or "".
func sharedURL() string {
	if forcedMini() {
		return ""
	}
	return os.Getenv(envURL)
}

// missing returns why there can be no redis-server of a test's own, or nil.
func missing() error {
	if forcedMini() {
		return errors.New("redistest: no redis-server: " + envForce + "=mini")
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		if required() {
			return fmt.Errorf("redistest: no redis-server, and %s=1: %w", envRequire, err)
		}
		return fmt.Errorf("redistest: no redis-server: %w", err)
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
		tb.Fatal(err)
	default:
		tb.Skip(err)
	}
}
