package location_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/location"
)

// LO-14: what is valid comes back from its URL, and what is not is refused.
func TestParseEndpoint(t *testing.T) {
	for text, want := range map[string]string{
		"h1:80":                        "http://h1:80",
		" H1.Example.:80 ":             "http://h1.example:80",
		"user_service:8080":            "http://user_service:8080",
		"10.0.0.7:65535":               "http://10.0.0.7:65535",
		"[::1]:80":                     "http://[::1]:80",
		"[fe80::1%eth0]:80":            "http://[fe80::1%25eth0]:80",
		"[::ffff:10.0.0.7]:80":         "http://10.0.0.7:80",
		"[2001:DB8::0:1]:1":            "http://[2001:db8::1]:1",
		"http://h1:8080":               "http://h1:8080",
		"HTTP://h1:8080/":              "http://h1:8080",
		"http://h1":                    "http://h1:80",
		"https://h1":                   "https://h1:443",
		"https://[::1]":                "https://[::1]:443",
		"http://[fe80::1%25eth0]:8080": "http://[fe80::1%25eth0]:8080",
		"redis+tls://h1:6379":          "redis+tls://h1:6379",
	} {
		e, err := location.ParseEndpoint(text)
		if err != nil || e.String() != want {
			t.Errorf("ParseEndpoint(%q) = %v, %v, want %s", text, e, err, want)
			continue
		}
		if u, err := url.Parse(e.String()); err != nil || u.Host != e.Addr() || u.Hostname() != e.Host {
			t.Errorf("the URL of %q is %v, %v, want host %s", text, u, err, e.Addr())
		}
	}
	for _, text := range []string{
		"", "h1", ":80", "h1:", "h1:0", "h1:65536", "h1:-1", "h1:+1", "h1:http", "h1:80:81", "::1:80", "::1", "[::1]", "[::1:80",
		"0.0.0.0:80", "[::]:80", "224.0.0.1:80", "256.1.1.1:80", "1.2.3:80", "h..1:80", "-h:80", "h 1:80", "h\n:80", "é:80",
		"http://", "http://h1:8080/users", "http://h1:8080?q", "http://h1:8080?", "http://h1#f", "http://h1#", "http://h1:", "ftp://h1",
		"http:h1:80", "//h1:80", "/h1", "1x://h1:80", strings.Repeat("a", 64) + ":80", strings.Repeat("a.", 127) + "aa:80",
		"http://[fe80::1%25e%2fth]:80",
	} {
		if e, err := location.ParseEndpoint(text); err == nil {
			t.Errorf("ParseEndpoint(%q) = %v, want an error", text, e)
		} else {
			wantErr(t, fmt.Sprintf("ParseEndpoint(%q)", text), err, transparency.ErrInvalid)
		}
	}
}

// User information is refused and not repeated.
func TestParseEndpointSecrets(t *testing.T) {
	for _, text := range []string{
		"http://ada:hush-hush@h1:80", "ada:hush-hush@h1:80", "http://ada:hush-hush@h1:bad", "http://h1:80/?token=hush-hush",
		"http://hush-hush\x7f:80", "hush-hush://h1:80:80", "http://ada:hush-hush@", "h1:hush-hush",
	} {
		for name, parse := range map[string]func() error{
			"ParseEndpoint":  func() error { _, err := location.ParseEndpoint(text); return err },
			"ParseEndpoints": func() error { _, err := location.ParseEndpoints("h1:1," + text); return err },
			"env": func() error {
				_, err := location.NewEnv(&location.EnvOptions{Defaults: map[string]string{service: text}}).Resolve(t.Context(), service)
				return err
			},
			"a name": func() error {
				_, err := location.NewStatic(nil).Resolve(t.Context(), text)
				return err
			},
		} {
			if err := parse(); err == nil || strings.Contains(err.Error(), "hush") {
				t.Errorf("%s of %q error = %v, want one without the secret", name, text, err)
			}
		}
	}
}

// LO-24: lists in all their forms.
func TestParseEndpoints(t *testing.T) {
	for list, want := range map[string]string{
		"h1:80,h2:80;[::1]:81":                  "error",
		"h2:80,h1:80":                           "[http://h1:80 http://h2:80]",
		" h1:80 , http://h2:80/ ,":              "[http://h1:80 http://h2:80]",
		"h1:80,H1:80,http://h1,h1.:80":          "[http://h1:80]",
		"[::1]:81,[0::1]:81,10.0.0.1:1":         "[http://10.0.0.1:1 http://[::1]:81]",
		"http://h1:80,https://h1:80":            "[http://h1:80 https://h1:80]",
		"":                                      "[]",
		" , ,":                                  "[]",
		"h1:80,h2":                              "error",
		"https://user.example,http://localhost": "[https://user.example:443 http://localhost:80]",
	} {
		all, err := location.ParseEndpoints(list)
		if err != nil {
			wantErr(t, "ParseEndpoints", err, transparency.ErrInvalid)
		}
		got := fmt.Sprint(all)
		if err != nil {
			got = "error"
		}
		if sorted := sortedText(all); err == nil && sorted != want && got != want {
			t.Errorf("ParseEndpoints(%q) = %v, %v, want %s", list, got, err, want)
		} else if (err != nil) != (want == "error") {
			t.Errorf("ParseEndpoints(%q) = %v, %v, want %s", list, got, err, want)
		}
	}
	if _, err := location.ParseEndpoints("h1:80,,h2"); err == nil || !strings.Contains(err.Error(), "item 3") {
		t.Errorf("ParseEndpoints error = %v, want one that names item 3", err)
	}
}

func sortedText(all []location.Endpoint) string {
	texts := make([]string, 0, len(all))
	for _, e := range all {
		texts = append(texts, e.String())
	}
	slices.Sort(texts)
	return fmt.Sprint(texts)
}

// LO-25.
func TestCleanService(t *testing.T) {
	for name, want := range map[string]string{
		"user-service": "user-service", "User_Service.": "user-service", "A.b": "a.b", "1": "1", "a--b": "a--b",
		strings.Repeat("a", 63): strings.Repeat("a", 63),
	} {
		if got, err := location.CleanService(name); err != nil || got != want {
			t.Errorf("CleanService(%q) = %q, %v, want %q", name, got, err, want)
		}
	}
	for _, name := range []string{
		"", ".", "..", "a..b", ".a", "a..", "-a", "a-", "_a", "a b", "a/b", "*", "{x}", "a%b", "a:b", "é", "a\x00", "\xff", "\u017f", "\u212a",
		strings.Repeat("a", 64), strings.Repeat("a.", 127) + "a",
	} {
		got, err := location.CleanService(name)
		if err == nil {
			t.Errorf("CleanService(%q) = %q, want an error", name, got)
			continue
		}
		wantErr(t, "CleanService", err, transparency.ErrInvalid)
	}
}

func TestNewSnapshot(t *testing.T) {
	now := time.Now()
	in := []location.Endpoint{
		{ID: "b", Host: "h2", Port: 80, Meta: map[string]string{"k": "v"}},
		{ID: "c", Host: "h3", Port: 80, Priority: 1},
		{ID: "a", Host: "h1", Port: 80, Priority: 2},
		{ID: "b2", Host: "H2.", Port: 80},
		{Host: "h1", Port: 443, Scheme: "HTTPS"},
		{Host: "h1", Port: 443},
	}
	s, err := location.NewSnapshot(in, now)
	if err != nil {
		t.Fatal(err)
	}
	in[0].Meta["k"] = "changed"
	var ids []string
	for e := range s.All() {
		ids = append(ids, e.ID)
	}
	if got := strings.Join(ids, " "); got != "b h1:443 https://h1:443 c a" {
		t.Errorf("ids = %s", got)
	}
	if s.Len() != 5 || s.At(0).Meta["k"] != "v" || !s.AsOf().Equal(now) || s.Stale() || !s.AsStale().Stale() || s.Stale() {
		t.Errorf("snapshot = %v %v", s, s.At(0).Meta)
	}
	for range s.All() {
		break
	}
	_, err = location.NewSnapshot([]location.Endpoint{{ID: "a", Host: "h1", Port: 80}, {ID: "a", Host: "h2", Port: 80}}, now)
	wantErr(t, "NewSnapshot of one id for two places", err, transparency.ErrInvalid)
	_, err = location.NewSnapshot([]location.Endpoint{at("h1"), {}}, now)
	wantErr(t, "NewSnapshot of no endpoint", err, transparency.ErrInvalid)
	for _, bad := range []location.Endpoint{
		{Host: "h", Port: 80, Meta: map[string]string{"k": strings.Repeat("v", 4096)}},
		{Host: "h", Port: 80, ID: strings.Repeat("i", 129)},
		{Host: "h", Port: 80, Zone: strings.Repeat("z", 65)},
		{Host: "h", Port: 80, Scheme: strings.Repeat("s", 33)},
	} {
		_, err = location.NewSnapshot([]location.Endpoint{bad}, now)
		wantErr(t, "NewSnapshot of what is too long", err, transparency.ErrInvalid)
	}
	var zero location.Snapshot
	if zero.Len() != 0 || zero.Stale() || !zero.AsOf().IsZero() || len(slices.Collect(zero.All())) != 0 {
		t.Errorf("the zero Snapshot = %v", zero)
	}
	if text := fmt.Sprintf("%v %+v %#v", s, s.AsStale(), s.At(0)); strings.Contains(text, "map[") {
		t.Errorf("printed %s, want it without Meta", text)
	}
}

func FuzzParseEndpoint(f *testing.F) {
	for _, s := range []string{"h1:80", "http://h1", "[::1]:80", "http://[fe80::1%25eth0]:1/", "a://b:1", "[::ffff:1.2.3.4%x]:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := location.ParseEndpoint(text)
		if err != nil {
			wantErr(t, "ParseEndpoint", err, transparency.ErrInvalid)
			return
		}
		again, err := location.ParseEndpoint(e.String())
		if err != nil || again.String() != e.String() || again.Addr() != e.Addr() {
			t.Errorf("ParseEndpoint(%q) = %v, and of that: %v, %v", text, e, again, err)
		}
		if u, err := url.Parse(e.String()); err != nil || u.Host != e.Addr() || u.User != nil || u.Path != "" {
			t.Errorf("the URL of %q is %v, %v", text, u, err)
		}
	})
}

func FuzzCleanService(f *testing.F) {
	for _, s := range []string{"user-service", "User_Service.", "a/b", "{x}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		clean, err := location.CleanService(name)
		if err != nil {
			return
		}
		if again, err := location.CleanService(clean); err != nil || again != clean {
			t.Errorf("CleanService(%q) = %q, and of that %q, %v", name, clean, again, err)
		}
		if strings.ContainsAny(clean, "{}%:*?[]/ _") || strings.ToLower(clean) != clean {
			t.Errorf("CleanService(%q) = %q", name, clean)
		}
	})
}

// The form in the store is API.
func TestEndpointJSON(t *testing.T) {
	e := location.Endpoint{
		ID: "i1", Scheme: "https", Host: "h1", Port: 443, Zone: "z", Priority: 1, Weight: 2,
		Meta: map[string]string{"k": "v"},
	}
	text, err := json.Marshal(e)
	const want = `{"id":"i1","scheme":"https","host":"h1","port":443,"zone":"z","priority":1,"weight":2,"meta":{"k":"v"}}`
	if err != nil || string(text) != want {
		t.Errorf("JSON = %s, %v, want %s", text, err, want)
	}
}
