package main

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/examples/internal/labtest"
	"github.com/go-transparency/transparency/internal/redistest"
)

// marker is a password that must not be seen anywhere.
const marker = "s3cr3t-mArk"

// protected returns a redis-server that wants the password marker, from the
// default user and from alice.
func protected(t *testing.T) (host, port string, admin *redis.Client) {
	t.Helper()
	server := redistest.StartServer(t)
	admin = server.Client(t)
	if err := admin.Do(t.Context(), "acl", "setuser", "alice", "on", ">"+marker, "~*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	if err := admin.ConfigSet(t.Context(), "requirepass", marker).Err(); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return host, port, admin
}

func TestConnects(t *testing.T) {
	host, port, admin := protected(t)
	addr := net.JoinHostPort(host, port)
	// Those three commands, and DEL, are all that it needs.
	if err := admin.Do(t.Context(), "acl", "setuser", "modest", "on", ">"+marker, "~lab:*", "+ping", "+set", "+get", "+del").Err(); err != nil {
		t.Fatal(err)
	}
	programs := map[string]labtest.Program{
		"host, port, password": {Env: map[string]string{"REDIS_HOST": host, "REDIS_PORT": port, "REDIS_PASSWORD": marker}},
		"user name":            {Env: map[string]string{"REDIS_HOST": host, "REDIS_PORT": port, "REDIS_USERNAME": "alice", "REDIS_PASSWORD": marker}},
		"few permissions":      {Env: map[string]string{"REDIS_URL": "redis://modest:" + marker + "@" + addr}},
		"URL":                  {Env: map[string]string{"REDIS_URL": "redis://alice:" + marker + "@" + addr + "/0"}},
		"dotenv":               {Dotenv: "REDIS_HOST=" + host + "\nREDIS_PORT=" + port + "\nREDIS_PASSWORD='" + marker + "'\n"},
		"password in dotenv, place in environment": {
			Dotenv: "REDIS_URL=redis://elsewhere.invalid\nREDIS_PASSWORD=" + marker + "\n",
			Env:    map[string]string{"REDIS_HOST": host, "REDIS_PORT": port},
		},
		"environment wins": {
			Dotenv: "REDIS_URL=redis://elsewhere.invalid\n",
			Env:    map[string]string{"REDIS_URL": "redis://:" + marker + "@" + addr},
		},
	}
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			r := program.Run(t)
			if r.Status != 0 || r.Stderr != "" || !strings.HasSuffix(r.Stdout, "Connected.\n") {
				t.Errorf("status %d, stdout %q, stderr %q; want it connected", r.Status, r.Stdout, r.Stderr)
			}
			if strings.Contains(r.Stdout, "inside this process") {
				t.Errorf("stdout = %q; the embedded Redis was used", r.Stdout)
			}
			if strings.Contains(r.Stdout, marker) {
				t.Errorf("stdout = %q; it holds the password", r.Stdout)
			}
		})
	}
	if n, err := admin.DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("DBSIZE = %d, %v; want no key left", n, err)
	}
}

func TestRefused(t *testing.T) {
	host, port, admin := protected(t)
	if err := admin.Do(t.Context(), "acl", "setuser", "reader", "on", ">"+marker, "~*", "+@read", "+ping").Err(); err != nil {
		t.Fatal(err)
	}
	const wrong = "wr0ng-mArk"
	tests := []struct {
		name string
		env  map[string]string
		want []string
	}{
		{"wrong password", map[string]string{"REDIS_PASSWORD": wrong}, []string{"cannot PING", "refused the user name or the password", "check REDIS_USERNAME and REDIS_PASSWORD"}},
		{"wrong user", map[string]string{"REDIS_USERNAME": wrong, "REDIS_PASSWORD": marker}, []string{"cannot PING", "check REDIS_USERNAME and REDIS_PASSWORD"}},
		{"no password", nil, []string{"cannot PING", "asks for a password", "check that REDIS_PASSWORD is set"}},
		{"may not write", map[string]string{"REDIS_USERNAME": "reader", "REDIS_PASSWORD": marker}, []string{"cannot SET", "does not allow", "check the user's permissions"}},
		{"no such database", map[string]string{"REDIS_URL": "redis://:" + marker + "@" + net.JoinHostPort(host, port) + "/4711"}, []string{"cannot PING", "no database of that number", "check the number"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			env := map[string]string{"REDIS_HOST": host, "REDIS_PORT": port}
			for name, value := range test.env {
				env[name] = value
			}
			labtest.Program{Env: env}.Run(t).WantFailure(t, test.want, marker, wrong)
		})
	}
	if n, err := admin.DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("DBSIZE = %d, %v; want no key left", n, err)
	}
}

// A password where the server has none: Redis 6 and later let the default user
// in, whatever it says.
func TestPasswordTooMany(t *testing.T) {
	for _, server := range []*redistest.Server{redistest.StartServer(t), redistest.StartMini(t)} {
		r := labtest.Program{Env: map[string]string{"REDIS_URL": "redis://:" + marker + "@" + server.Addr()}}.Run(t)
		if r.Status == 0 {
			continue
		}
		r.WantFailure(t, []string{"cannot PING", "has no password, but was given one", "check REDIS_PASSWORD"}, marker)
	}
}

func TestPausedServer(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	server.Pause()
	start := time.Now()
	r := labtest.Program{Env: map[string]string{"REDIS_URL": "redis://" + server.Addr()}}.Run(t)
	r.WantFailure(t, []string{"cannot PING", "no answer from " + server.Addr(), "check REDIS_HOST and REDIS_PORT"})
	if took := time.Since(start); took > 6*time.Second {
		t.Errorf("it took %v, want about 4 s", took)
	}
}

func TestNoKeyIsLeftWhenGetFails(t *testing.T) {
	server := redistest.StartServer(t)
	admin := server.Client(t)
	if err := admin.Do(context.Background(), "acl", "setuser", "writer", "on", ">"+marker, "~*", "+@all", "-get").Err(); err != nil {
		t.Fatal(err)
	}
	labtest.Program{Env: map[string]string{"REDIS_URL": "redis://writer:" + marker + "@" + server.Addr()}}.Run(t).
		WantFailure(t, []string{"cannot GET", "check the user's permissions"}, marker)
	if n, err := admin.DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("DBSIZE = %d, %v; want no key left", n, err)
	}
}
