package location_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/location"
)

func TestStatic(t *testing.T) {
	endpoints := []location.Endpoint{at("h2"), at("h1")}
	l := location.NewStatic(map[string][]location.Endpoint{
		"User_Service": endpoints, "empty": nil, "bad": {{Host: "h"}},
		"twice": {at("h1")}, "Twice": {at("h2")},
	})
	endpoints[0].Host = "changed"
	if got, err := hosts(l); err != nil || fmt.Sprint(got) != "[h1 h2]" {
		t.Errorf("Resolve = %v, %v, want h1 and h2", got, err)
	}
	s, _ := l.Resolve(t.Context(), service)
	if age := time.Since(s.AsOf()); age < 0 || age > time.Minute || s.Stale() {
		t.Errorf("as of %v ago, stale %v, want now", age, s.Stale())
	}
	for name, want := range map[string]error{
		"empty": location.ErrNoInstances, "product-service": location.ErrUnknownService, "bad": transparency.ErrInvalid,
		"twice": transparency.ErrInvalid, "a/b": transparency.ErrInvalid,
	} {
		s, err := l.Resolve(t.Context(), name)
		wantErr(t, "Resolve of "+name, err, want)
		if s.Len() != 0 || (name == "empty") == s.AsOf().IsZero() {
			t.Errorf("Resolve(%q) = %v as of %v", name, s, s.AsOf())
		}
		if name != "a/b" && !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("Resolve(%q) error = %v, want one with the name", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Resolve(ctx, service)
	wantErr(t, "Resolve", err, context.Canceled)
	_, err = location.NewStatic(map[string][]location.Endpoint{"a/b": nil}).Resolve(t.Context(), service)
	wantErr(t, "Resolve beside a bad name", err, transparency.ErrInvalid)
	_, err = new(location.Static).Resolve(t.Context(), service)
	wantErr(t, "Resolve of the zero Static", err, location.ErrUnknownService)
}

func TestStaticWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := location.NewStatic(map[string][]location.Endpoint{service: {at("h1")}, "empty": nil})
		for name, want := range map[string]error{service: nil, "empty": nil, "unknown": location.ErrUnknownService} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			n := 0
			for _, err := range location.Watch(ctx, l, name) {
				n++
				if !errors.Is(err, want) {
					t.Errorf("Watch(%q) error = %v, want %v", name, err, want)
				}
				if name == service {
					break
				}
			}
			if n != 1 {
				t.Errorf("Watch(%q) gave %d events, want 1", name, n)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range location.Watch(ctx, l, service) {
			t.Error("an event after the context ended")
		}
	})
}

// LO-24.
func TestEnv(t *testing.T) {
	t.Setenv("USER_SERVICE_URL", "h2:80, http://h1:80,")
	t.Setenv("PRODUCT_SERVICE_URL", "")
	t.Setenv("A_B_C_URL", "h1:80")
	t.Setenv("EMPTY_URL", " , ")
	t.Setenv("BAD_URL", "http://ada:hush-hush@h1")
	l := location.NewEnv(&location.EnvOptions{Defaults: map[string]string{
		"user-service": "localhost:8080", "Product_Service": "http://localhost:9090", "default-bad": "nowhere",
	}})
	if got, err := hosts(l); err != nil || fmt.Sprint(got) != "[h1 h2]" {
		t.Errorf("Resolve = %v, %v, want h1 and h2", got, err)
	}
	for name, want := range map[string]string{"product-service": "http://localhost:9090", "a.b-c": "http://h1:80", "USER_SERVICE": ""} {
		u, err := location.URL(t.Context(), l, name)
		if err != nil || want != "" && u.String() != want {
			t.Errorf("URL(%q) = %v, %v, want %s", name, u, err, want)
		}
	}
	for name, want := range map[string]error{
		"other": location.ErrUnknownService, "empty": location.ErrNoInstances, "bad": transparency.ErrInvalid,
		"default-bad": transparency.ErrInvalid, "x/y": transparency.ErrInvalid,
	} {
		_, err := l.Resolve(t.Context(), name)
		wantErr(t, "Resolve of "+name, err, want)
		if strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "nowhere") {
			t.Errorf("Resolve(%q) error = %v, want one without the value", name, err)
		}
	}
	if _, err := l.Resolve(t.Context(), "other"); !strings.Contains(err.Error(), "OTHER_URL") {
		t.Errorf("Resolve error = %v, want one that names the variable", err)
	}
	if _, err := l.Resolve(t.Context(), "bad"); !strings.Contains(err.Error(), "BAD_URL") {
		t.Errorf("Resolve error = %v, want one that names the variable", err)
	}
	t.Setenv("USER_SERVICE_URL", "h3:80")
	if got, err := hosts(l); err != nil || fmt.Sprint(got) != "[h3]" {
		t.Errorf("Resolve after a change = %v, %v, want h3", got, err)
	}
	if _, err := location.NewEnv(nil).Resolve(t.Context(), "a-b-c"); err != nil {
		t.Errorf("Resolve without options error = %v", err)
	}
	for _, defaults := range []map[string]string{{"a/b": "h:1"}, {"a-b": "h:1", "A_B": "h:1"}} {
		_, err := location.NewEnv(&location.EnvOptions{Defaults: defaults}).Resolve(t.Context(), "a-b-c")
		wantErr(t, "Resolve beside a bad default", err, transparency.ErrInvalid)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Resolve(ctx, service)
	wantErr(t, "Resolve", err, context.Canceled)
}

func TestEnvWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		value := "h1:80"
		l := location.NewEnv(&location.EnvOptions{Lookup: func(name string) (string, bool) {
			mu.Lock()
			defer mu.Unlock()
			return value, name == "USER_SERVICE_URL"
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var got []string
		for s, err := range location.Watch(ctx, l, service) {
			got = append(got, fmt.Sprint(s.Len(), err != nil))
			mu.Lock()
			value += map[int]string{1: ",h2:80", 2: ",nowhere", 3: ":80"}[len(got)]
			mu.Unlock()
		}
		if fmt.Sprint(got) != "[1 false 2 false 0 true 3 false]" {
			t.Errorf("events = %v", got)
		}
	})
}

func TestURL(t *testing.T) {
	l := location.NewStatic(map[string][]location.Endpoint{
		service: {
			{Host: "h1", Port: 80}, {Host: "h2", Port: 80, Weight: 3}, {Host: "standby", Port: 80, Priority: 1},
		},
		"empty": nil,
	})
	counts := map[string]int{}
	for range 4000 {
		u, err := location.URL(t.Context(), l, service)
		if err != nil {
			t.Fatal(err)
		}
		counts[u.Hostname()]++
	}
	if n := counts["h2"]; n < 2700 || n > 3300 || counts["standby"] != 0 {
		t.Errorf("shares = %v, want 1 to 3", counts)
	}
	_, err := location.URL(t.Context(), l, "empty")
	wantErr(t, "URL", err, location.ErrNoInstances)
	_, err = location.URL(t.Context(), l, "other")
	wantErr(t, "URL", err, location.ErrUnknownService)
	_, err = location.URL(t.Context(), nothing{}, service)
	wantErr(t, "URL of a faulty Locator", err, location.ErrNoInstances)
}

// nothing breaks the promise of at least one endpoint.
type nothing struct{}

func (nothing) Resolve(context.Context, string) (location.Snapshot, error) {
	return location.Snapshot{}, nil
}

func TestAddrs(t *testing.T) {
	l := location.NewStatic(map[string][]location.Endpoint{
		service: {{Host: "::1", Port: 80}, {Host: "h1", Port: 443, Scheme: "https"}, {Host: "h1", Port: 443}},
	})
	got, err := location.Addrs(l, service)(t.Context())
	if err != nil || fmt.Sprint(got) != "[[::1]:80 h1:443]" {
		t.Errorf("Addrs = %v, %v", got, err)
	}
	_, err = location.Addrs(l, "other")(t.Context())
	wantErr(t, "Addrs", err, location.ErrUnknownService)
}

// Where a Locator is wanted, none is an error.
func TestNilLocator(t *testing.T) {
	_, err := location.URL(t.Context(), nil, service)
	wantErr(t, "URL", err, transparency.ErrInvalid)
	_, err = location.Addrs(nil, service)(t.Context())
	wantErr(t, "Addrs", err, transparency.ErrInvalid)
	for _, err := range location.Watch(t.Context(), nil, service) {
		wantErr(t, "Watch", err, transparency.ErrInvalid)
		break
	}
}
