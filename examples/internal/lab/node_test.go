package lab_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/internal/redistest"
)

func newEnv(tb testing.TB, settings map[string]string) *lab.Env {
	lookup := func(name string) (string, bool) { value, ok := settings[name]; return value, ok }
	return lab.New(nil, io.Discard, lookup, tb.TempDir())
}

// Nodes are the run's Redis, and each can die without the others.
func TestNode(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { testNode(t, nil) })
	t.Run("server", func(t *testing.T) {
		testNode(t, map[string]string{"REDIS_URL": "redis://" + redistest.StartServer(t).Addr() + "/3"})
	})
}

func testNode(t *testing.T, settings map[string]string) {
	err := newEnv(t, settings).Run(t.Context(), func(ctx context.Context, env *lab.Env) error {
		client, err := env.Redis(ctx)
		if err != nil {
			return err
		}
		first, err := env.StartNode(ctx)
		if err != nil {
			return err
		}
		defer first.Close()
		second, err := env.StartNode(ctx)
		if err != nil {
			return err
		}
		defer second.Close()
		if err := client.Set(ctx, env.Prefix()+"key", "value", 0).Err(); err != nil {
			return err
		}
		for _, n := range []*lab.Node{first, second} {
			if value, err := n.Client.Get(ctx, env.Prefix()+"key").Result(); err != nil || value != "value" {
				t.Errorf("Get = %q, %v; want what the run's own client set", value, err)
			}
		}
		first.Kill()
		first.Kill()
		if err := first.Client.Ping(ctx).Err(); err == nil {
			t.Error("a node that was killed answers")
		}
		if err := second.Client.Ping(ctx).Err(); err != nil {
			t.Errorf("the other node: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestClientAt(t *testing.T) {
	const marker = "s3cr3t-mArk"
	client, err := newEnv(t, map[string]string{"REDIS_URL": "rediss://u:" + marker + "@db.example:7/2"}).ClientAt("other.example:8")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	o := client.Options()
	if o.Addr != "other.example:8" || o.Username != "u" || o.Password != marker || o.TLSConfig == nil || o.TLSConfig.ServerName != "other.example" || o.MaxRetries != 0 && o.MaxRetries != -1 {
		t.Errorf("ClientAt: %s as %q, TLS %t; want the other server, as the same user", o.Addr, o.Username, o.TLSConfig != nil)
	}
	for _, addr := range []string{"", "h", "h:", ":1", "h:0", "h:port", "redis://u:" + marker + "@h:1"} {
		client, err := newEnv(t, nil).ClientAt(addr)
		if err == nil {
			client.Close()
			t.Errorf("ClientAt(%q) is no error", addr)
		} else if strings.Contains(err.Error(), marker) || !strings.Contains(err.Error(), "check") {
			t.Errorf("ClientAt(%q) error = %v; want what to check, and no secret", addr, err)
		}
	}
	if _, err := newEnv(t, map[string]string{"REDIS_PORT": "x"}).ClientAt("h:1"); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("ClientAt with a bad setting: error = %v, want that of the setting", err)
	}
}
