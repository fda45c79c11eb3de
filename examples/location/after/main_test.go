package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/examples/internal/labtest"
	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/location"
)

func TestMain(m *testing.M) { labtest.Main(m, run) }

func Example() {
	labtest.Example(run)
	// Output:
	// Redis: none is configured (REDIS_URL, REDIS_HOST), so one runs inside this process and ends with it.
	// The environment says where the services are.
	//   Ada likes tea and trains
	// product-service has stopped.
	//   Ada; what she likes is not known at the moment
	// A name that nobody gave: location: resolve "order-service": unknown service: ORDER_SERVICE_URL is not set
	// A registry in Redis says where the services are; the client is the same.
	// product-service was never started: location: watch "product-service": unknown service
	// An instance has come, a process of its own.
	//   Ada likes tea and trains
	// It has gone.
	//   Ada; what she likes is not known at the moment
}

func TestServerNoKeyLeft(t *testing.T) {
	server := redistest.StartServer(t)
	r := labtest.Program{Env: map[string]string{"REDIS_URL": "redis://" + server.Addr()}}.Run(t)
	if r.Status != 0 || r.Stderr != "" || !strings.HasSuffix(r.Stdout, "It has gone.\n  Ada; what she likes is not known at the moment\n") {
		t.Errorf("status %d, stdout %q, stderr %q", r.Status, r.Stdout, r.Stderr)
	}
	if n, err := server.Client(t).DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("DBSIZE = %d, %v; want no key left", n, err)
	}
}

func TestDefaults(t *testing.T) {
	locator := location.NewEnv(&location.EnvOptions{
		Defaults: defaults,
		Lookup:   func(string) (string, bool) { return "", false },
	})
	for service, want := range map[string]string{"user-service": "http://localhost:8080", "product-service": "http://localhost:9090"} {
		if url, err := location.URL(t.Context(), locator, service); err != nil || url.String() != want {
			t.Errorf("URL(%q) = %v, %v; want %s", service, url, err, want)
		}
	}
}

func TestFromEnvironment(t *testing.T) {
	users := httptest.NewServer(lab.Says("Bob"))
	defer users.Close()
	products := httptest.NewServer(lab.Says("salt"))
	defer products.Close()
	broken := httptest.NewServer(nil)
	defer broken.Close()
	for products, want := range map[string]string{
		products.URL:         "  Bob likes salt\n",
		"http://127.0.0.1:1": "  Bob; what she likes is not known at the moment\n",
		broken.URL:           "  Bob; what she likes is not known at the moment\n",
		",":                  "  Bob; what she likes is not known at the moment\n",
	} {
		r := labtest.Program{Env: map[string]string{"USER_SERVICE_URL": users.URL, "PRODUCT_SERVICE_URL": products}}.Run(t)
		if r.Status != 0 || r.Stderr != "" || r.Stdout != want {
			t.Errorf("with products at %q: status %d, stdout %q, stderr %q; want %q", products, r.Status, r.Stdout, r.Stderr, want)
		}
	}
}

// A name that is wrong is a mistake, and no reason for half a page.
func TestUnknownServiceIsNotHidden(t *testing.T) {
	users := httptest.NewServer(lab.Says("Bob"))
	defer users.Close()
	here, err := location.ParseEndpoint(users.URL)
	if err != nil {
		t.Fatal(err)
	}
	locator := location.NewStatic(map[string][]location.Endpoint{"user-service": {here}})
	if text, err := page(t.Context(), locator); err == nil || !strings.Contains(advise(err).Error(), `"product-service": unknown service: check the name`) {
		t.Errorf("page = %q, %v; want an error that names the service", text, err)
	}
}

func TestBadInput(t *testing.T) {
	const marker = "s3cr3t-mArk"
	tests := []struct {
		name string
		args []string
		env  map[string]string
		want []string
	}{
		{"arguments", []string{"serf"}, nil, []string{"unknown arguments", "check"}},
		{"no answer", nil, map[string]string{"USER_SERVICE_URL": "127.0.0.1:1"}, []string{"user-service does not answer at http://127.0.0.1:1", "check that it runs"}},
		{"empty set", nil, map[string]string{"USER_SERVICE_URL": ","}, []string{`"user-service": no instances`, "check USER_SERVICE_URL"}},
		{"no URL", nil, map[string]string{"USER_SERVICE_URL": "http://" + marker + "%zz"}, []string{"USER_SERVICE_URL", "invalid", "check"}},
		{"password", nil, map[string]string{"USER_SERVICE_URL": "http://u:" + marker + "@h"}, []string{"USER_SERVICE_URL", "invalid", "check"}},
		{"registry", nil, map[string]string{"REDIS_URL": "redis://u:" + marker + "@127.0.0.1:1"}, []string{"cannot reach Redis", "nothing listens", "check"}},
		{"registry, for an instance", []string{"serve"}, map[string]string{"REDIS_PORT": "1"}, []string{"cannot reach Redis", "nothing listens", "check"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := labtest.Program{Args: test.args, Env: test.env}.Run(t)
			r.WantFailure(t, test.want, marker)
			if r.Stdout != "" {
				t.Errorf("stdout = %q, want nothing half done", r.Stdout)
			}
		})
	}
}

// A registry that allows no registration: the program says so and ends.
func TestDenied(t *testing.T) {
	server := redistest.StartServer(t)
	if err := server.Client(t).Do(t.Context(), "acl", "setuser", "default", "-eval", "-evalsha", "-fcall").Err(); err != nil {
		t.Fatal(err)
	}
	labtest.Program{Env: map[string]string{"REDIS_URL": "redis://" + server.Addr()}}.Run(t).
		WantFailure(t, []string{`"user-service": denied`, "check the permissions"})
}
