package access_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/go-transparency/transparency/access"
)

// FuzzKey takes a key that is accepted to where it is used: it stays below a
// directory, and a server reads from the request line what was meant.
func FuzzKey(f *testing.F) {
	for _, key := range []string{"a/b.json", "../a", "a//b", "%2e%2e/x", "a b+é?#", "a:b", "/", "\xff", "a;b=c&d", "http:", "[::1]"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		var asked *url.URL
		repo := access.NewHTTP("http://host/c%2Fd/", &access.HTTPOptions{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			asked = r.URL
			rec := httptest.NewRecorder()
			_, _ = rec.WriteString("1")
			return rec.Result(), nil
		})})
		_, err := repo.Get(context.Background(), key)
		if errors.Is(err, access.ErrInvalidKey) {
			if asked != nil {
				t.Errorf("Get(%q) asked for %v and gave %v", key, asked, err)
			}
			return
		}
		if err != nil {
			t.Fatalf("Get(%q) error = %v", key, err)
		}
		got, err := url.ParseRequestURI(asked.RequestURI())
		if err != nil || got.Path != "/c/d/"+key || got.RawQuery != "" || asked.Host != "host" {
			t.Errorf("Get(%q): the request line has %q, read as %v, %v", key, asked.RequestURI(), got, err)
		}
		if !filepath.IsLocal(filepath.FromSlash(key)) {
			t.Errorf("key %q is accepted and leads out of a directory", key)
		}
	})
}
