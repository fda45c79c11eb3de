package redistest

import (
	"errors"
	"os"

	"github.com/redis/go-redis/v9"
)

// Example returns a client for an Example function, which has no testing.TB: of a redis-server of
// its own when there is one on the PATH, else of miniredis, by the same environment as [Start].
// REDIS_URL is not used: examples write under the packages' default prefixes, which may be
// somebody's data there. done closes the client and stops the server. Example panics when there is
// nothing to start.
func Example() (client *redis.Client, done func()) {
	Silence()
	addr, stop, err := startExample()
	if err != nil {
		panic(err)
	}
	client = redis.NewClient(tune(&redis.Options{Addr: addr}))
	return client, func() {
		_ = client.Close()
		stop()
	}
}

func startExample() (addr string, stop func(), err error) {
	if err := missing(); err != nil {
		if required() {
			return "", nil, err
		}
		m, err := startMini()
		if err != nil {
			return "", nil, err
		}
		return m.Addr(), m.Close, nil
	}
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return "", nil, err
	}
	p, err := startProcess(dir)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p.addr(), func() {
		p.kill()
		_ = os.RemoveAll(dir)
	}, nil
}
