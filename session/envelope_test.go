package session

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

func TestKeepUnknown(t *testing.T) {
	for _, tt := range []struct{ name, stored, before, after, want string }{
		{"nothing unknown", `{"a":1}`, `{"a":1}`, `{"a":2}`, `{"a":2}`},
		{"an unknown member", `{"a":1,"x":[9]}`, `{"a":1}`, `{"a":2}`, `{"a":2,"x":[9]}`},
		{"a known member that went", `{"a":1,"x":1}`, `{"a":1}`, `{}`, `{"x":1}`},
		{"known in another spelling", `{"A":1}`, `{"a":1}`, `{}`, `{}`},
		{"known with a Kelvin sign", "{\"\u212a\":1}", `{"k":1}`, `{}`, `{}`},
		{"keys that differ in case", `{"a":{"x":1,"u":1},"A":{"x":2}}`, `{"a":{"x":1},"A":{"x":2}}`, `{"a":{"x":3},"A":{"x":2}}`, `{"a":{"x":3,"u":1},"A":{"x":2}}`},
		{"one of them that went", `{"a":{"x":1},"A":{"x":2,"u":2}}`, `{"a":{"x":1},"A":{"x":2}}`, `{"a":{"x":1}}`, `{"a":{"x":1}}`},
		{"now written in another spelling", `{"X":""}`, `{}`, `{"x":1}`, `{"x":1}`},
		{"in an object", `{"o":{"a":1,"x":2}}`, `{"o":{"a":1}}`, `{"o":{"a":3}}`, `{"o":{"a":3,"x":2}}`},
		{"in an object that went", `{"o":{"a":1,"x":2}}`, `{"o":{"a":1}}`, `{}`, `{}`},
		{"in an object that is none now", `{"o":{"a":1,"x":2}}`, `{"o":{"a":1}}`, `{"o":null}`, `{"o":null}`},
		{"in an array", `{"l":[{"a":1,"x":2}]}`, `{"l":[{"a":1}]}`, `{"l":[{"a":3}]}`, `{"l":[{"a":3}]}`},
		{"no object", `[1]`, `[1]`, `[2]`, `[2]`},
		{"an object that became none", `{"a":1}`, `{"a":1}`, `5`, `5`},
		{"names that need escapes", `{"\"\u0000<é":1,"a":1}`, `{"a":1}`, `{"a":2}`, `{"a":2,"\"\u0000\u003cé":1}`},
		{"numbers as they are", `{"x":1700000000000000001,"y":1e400}`, `{}`, `{}`, `{"x":1700000000000000001,"y":1e400}`},
	} {
		if got := keepUnknown([]byte(tt.stored), []byte(tt.before), []byte(tt.after)); string(got) != tt.want {
			t.Errorf("%s: keepUnknown = %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestKeepUnknownDeep: what it takes grows with the size of the data, not with
// its depth. Memory is what a busy machine takes no more of.
func TestKeepUnknownDeep(t *testing.T) {
	allocated := func(depth int) uint64 {
		nest := func(inner string) []byte {
			return []byte(strings.Repeat(`{"n":`, depth) + inner + strings.Repeat("}", depth))
		}
		stored, old, changed, want := nest(`{"a":1,"x":2}`), nest(`{"a":1}`), nest(`{"a":3}`), nest(`{"a":3,"x":2}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := keepUnknown(stored, old, changed)
		runtime.ReadMemStats(&after)
		if !bytes.Equal(got, want) {
			t.Errorf("keepUnknown = %.80s…, want %.80s…", got, want)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	const depth = 9000 // encoding/json has 10000 as its limit
	quarter, whole := allocated(depth/4), allocated(depth)
	if whole > 8*quarter {
		t.Errorf("keepUnknown of %d levels allocated %d bytes, of a quarter of them %d: want four times that", depth, whole, quarter)
	}
}

func FuzzKeepUnknown(f *testing.F) {
	f.Add([]byte(`{"a":1,"x":{"y":2}}`), []byte(`{"a":1,"x":{}}`), []byte(`{"x":{"z":1}}`))
	f.Add([]byte(`{"a":1}`), []byte(`[]`), []byte(`null`))
	f.Fuzz(func(t *testing.T, stored, before, after []byte) {
		got := keepUnknown(stored, before, after)
		if json.Valid(stored) && json.Valid(before) && json.Valid(after) && !json.Valid(got) {
			t.Errorf("keepUnknown(%s, %s, %s) = %s, which is no JSON", stored, before, after, got)
		}
	})
}

func FuzzDecodeEnvelope(f *testing.F) {
	token := newToken()
	f.Add(envelope{token.hash(), []byte(`{}`)}.encode())
	f.Add([]byte{})
	f.Add([]byte{envelopeMagic, 2})
	f.Add([]byte(`{"user":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := decodeEnvelope(data)
		if err == nil && !bytes.Equal(e.encode(), data) {
			t.Errorf("decodeEnvelope(%x) and back = %x", data, e.encode())
		}
		if err == nil && e.admits(newToken()) {
			t.Errorf("decodeEnvelope(%x) admits any token", data)
		}
	})
}

func FuzzParseToken(f *testing.F) {
	f.Add(newToken().Reveal())
	f.Add("")
	f.Add("../../x")
	f.Fuzz(func(t *testing.T, text string) {
		token, ok := parseToken(text)
		if ok && token.Reveal() != text {
			t.Errorf("parseToken(%q) reveals %q", text, token.Reveal())
		}
		if !ok && token.Reveal() != "" {
			t.Errorf("parseToken(%q) = a token, false", text)
		}
	})
}

// TestTokens: every token is of one form, which parseToken takes, and no two
// are alike.
func TestTokens(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		token := newToken()
		id, secret, _ := strings.Cut(token.Reveal(), ".")
		for _, part := range []string{id, secret, newSecret()} {
			if seen[part] {
				t.Fatalf("%q came twice", part)
			}
			seen[part] = true
		}
		if got, ok := parseToken(token.Reveal()); !ok || got.hash() != token.hash() {
			t.Errorf("parseToken of a new token = %v", ok)
		}
	}
}
