package transparency_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/access"
	"github.com/go-transparency/transparency/failure"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/location"
	"github.com/go-transparency/transparency/lock"
	"github.com/go-transparency/transparency/relocation"
	"github.com/go-transparency/transparency/replica"
	"github.com/go-transparency/transparency/session"
)

// The functions below hold the README's snippets to the letter;
// TestReadmeSnippets compares them, and the tests after it run them.

type Database struct {
	Host string
	Port int
}

type Cart struct{ Items []string }

func readmeClient(addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true}) // github.com/redis/go-redis/v9
	return client
}

func readmeAccess(ctx context.Context) error {
	repo, err := access.FromEnv(nil)
	if err != nil {
		return err
	}
	defer repo.Close()
	db, _, err := access.Load[Database](ctx, repo, "database")
	if err == nil && db != (Database{"localhost", 5432}) {
		err = fmt.Errorf("db = %+v", db)
	}
	return err
}

func readmeSession(ctx context.Context, client session.RedisClient, cart Cart) error {
	store := session.NewRedisStore(client, nil)
	if err := session.SaveJSON(ctx, store, "user_42", cart, time.Hour); err != nil {
		return err
	}
	again, err := session.LoadJSON[Cart](ctx, store, "user_42") // in any process
	if err == nil && (len(again.Items) != 1 || again.Items[0] != cart.Items[0]) {
		err = fmt.Errorf("cart = %+v", again)
	}
	return err
}

func readmeLock(ctx context.Context, client lock.RedisClient, withdraw func(context.Context, int, uint64) error) error {
	locker := lock.NewRedis(client, nil)
	defer locker.Close()
	err := lock.Do(ctx, locker.Mutex("account:7", nil), func(ctx context.Context, fence uint64) error {
		return withdraw(ctx, 200, fence) // ctx ends in time if the lock is lost
	})
	return err
}

func readmeRelocation(ctx context.Context, client relocation.RedisClient) error {
	keys := [][]byte{[]byte("sixteen bytes or more")}
	upper := func(_ context.Context, s *relocation.Session, m relocation.Message) error {
		return s.Reply(bytes.ToUpper(m.Data))
	}
	mux := http.NewServeMux()
	hub := relocation.NewHub(relocation.NewRedisStore(client, nil), upper, &relocation.HubOptions{Keys: keys})
	defer hub.Close()
	mux.Handle("/talk", hub.WebSocket(nil)) // before the process ends: hub.Drain
	server := httptest.NewServer(mux)
	defer server.Close()
	return readmeTalk(ctx, relocation.Addresses([]string{"ws" + strings.TrimPrefix(server.URL, "http") + "/talk"}))
}

func readmeTalk(ctx context.Context, addresses func(context.Context) ([]string, error)) error {
	conn, err := relocation.Dial(ctx, addresses, &relocation.WebSocketDialer{}, nil)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	err = conn.Send(ctx, []byte("hello")) // nil: it will be delivered; an error: it never will
	if err != nil {
		return err
	}
	m, err := conn.Receive(ctx)
	if err == nil && string(m.Data) != "HELLO" {
		err = fmt.Errorf("m = %q", m.Data)
	}
	return err
}

func readmeLocation(ctx context.Context, client location.RedisClient) (err error) {
	registry := location.NewRedis(client, nil)
	defer registry.Close()
	reg, err := registry.Register(ctx, "user-service", location.Endpoint{Host: "10.0.0.7", Port: 8080})
	if err != nil {
		return err
	}
	defer reg.Deregister(context.WithoutCancel(ctx))
	url, err := location.URL(ctx, registry, "user-service") // in any process
	if err == nil && url.Host != "10.0.0.7:8080" {
		err = fmt.Errorf("url = %v", url)
	}
	return err
}

func readmeReplica(ctx context.Context, client *redis.Client) error {
	pool, err := replica.New(replica.NewRedisBackend(nil), []replica.Node[*redis.Client]{{Name: "a", Client: client}}, nil)
	if err != nil {
		return err
	}
	defer pool.Close()
	err = pool.Write(ctx, nil, func(ctx context.Context, c *redis.Client) error {
		return c.Set(ctx, "user:7:name", "ada", time.Minute).Err()
	})
	if err != nil {
		return err
	}
	name, err := replica.Query(ctx, pool, nil, func(ctx context.Context, c *redis.Client) (string, error) {
		return c.Get(ctx, "user:7:name").Result()
	})
	if err == nil && name != "ada" {
		err = fmt.Errorf("name = %q", name)
	}
	return err
}

func readmeFailure(ctx context.Context) error {
	calls := 0
	loadUser := func(context.Context) (string, error) {
		if calls++; calls == 1 {
			return "", transparency.ErrUnavailable
		}
		return "ada", nil
	}
	user, err := failure.Call(ctx, loadUser, failure.NewRetry(nil), failure.NewLocalBreaker(nil))
	if err == nil && (user != "ada" || calls != 2) {
		err = fmt.Errorf("user = %q after %d calls", user, calls)
	}
	return err
}

func readmeErrors(err error) string {
	switch {
	case transparency.Retryable(err): // it did not happen; trying again is safe
		return "retry"
	case errors.Is(err, transparency.ErrUncertain): // it may have happened; look first
		return "look"
	case errors.Is(err, lock.ErrHeld): // the answer is no
		return "no"
	}
	return ""
}

// Each line of a Go snippet in the README stands in this file, in that order.
func TestReadmeSnippets(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := func(text string) (out []string) {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				out = append(out, line)
			}
		}
		return out
	}
	n := 0
	for i, part := range strings.Split(string(readme), "```go\n") {
		if i == 0 {
			continue
		}
		n++
		snippet, _, _ := strings.Cut(part, "```")
		rest := lines(string(self))
		for _, line := range lines(snippet) {
			found := false
			for len(rest) > 0 && !found {
				found, rest = rest[0] == line, rest[1:]
			}
			if !found {
				t.Errorf("README snippet %d: this test does not run %q there", n, line)
				break
			}
		}
	}
	if n != 10 {
		t.Errorf("README has %d Go snippets, want 10", n)
	}
}

func TestReadmeRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(`{"database":{"host":"localhost","port":5432}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONFIG_BACKEND", "local")
	t.Setenv("CONFIG_URL", file)
	if err := readmeAccess(t.Context()); err != nil {
		t.Errorf("access: %v", err)
	}

	embedded, done := redistest.Example()
	defer done()
	client := readmeClient(embedded.Options().Addr)
	defer client.Close()
	if err := readmeSession(t.Context(), client, Cart{[]string{"book"}}); err != nil {
		t.Errorf("session: %v", err)
	}
	if err := readmeRelocation(t.Context(), client); err != nil {
		t.Errorf("relocation: %v", err)
	}
	if err := readmeLocation(t.Context(), client); err != nil {
		t.Errorf("location: %v", err)
	}
	if client.Info(t.Context(), "replication").Err() == nil { // the embedded Redis knows no roles
		if err := readmeReplica(t.Context(), client); err != nil {
			t.Errorf("replica: %v", err)
		}
	}
	if err := readmeFailure(t.Context()); err != nil {
		t.Errorf("failure: %v", err)
	}
	balance := 1000
	err := readmeLock(t.Context(), client, func(_ context.Context, amount int, fence uint64) error {
		if fence == 0 {
			return errors.New("no fence")
		}
		balance -= amount
		return nil
	})
	if err != nil || balance != 800 {
		t.Errorf("lock: error %v, balance %d, want nil and 800", err, balance)
	}
	if got := readmeErrors(fmt.Errorf("lock: %w", lock.ErrHeld)); got != "no" {
		t.Errorf("errors: %q, want \"no\"", got)
	}
}
