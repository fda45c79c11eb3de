package session

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
)

// A Token is what a client holds to come back to its session: the session's id
// (144 random bits, by which the store finds it) and a secret (192 random
// bits, of which the store has only a hash), both in base64url, with a dot
// between. Who sees a store can therefore not act as its users, and the secret
// can be renewed while the session stays under one key.
//
// A Token prints, logs and marshals as "[redacted]". [Token.Reveal] is the one
// way to its text.
type Token struct {
	_ [0]func() // no ==, which would compare addresses

	// Behind a pointer, because fmt prints what is in an unexported field of
	// someone's struct without asking its methods. Of a pointer to a string it
	// has only the address; one to a struct it would follow for some verbs.
	text *string
}

const (
	idText     = 24 // 18 bytes
	secretText = 32 // 24 bytes; neither leaves spare bits, so a token has one text
	redacted   = "[redacted]"
)

func newSecret() string { return randomText(secretText) }

func newToken() Token { return tokenOf(randomText(idText), newSecret()) }

func tokenOf(id, secret string) Token {
	text := id + "." + secret
	return Token{text: &text}
}

func randomText(n int) string {
	raw := make([]byte, base64.RawURLEncoding.DecodedLen(n))
	_, _ = rand.Read(raw) // it never fails
	return base64.RawURLEncoding.EncodeToString(raw)
}

// parseToken reports whether text has the form of a token.
func parseToken(text string) (Token, bool) {
	if len(text) != idText+1+secretText || text[idText] != '.' {
		return Token{}, false
	}
	for i := range len(text) {
		if i != idText && !isBase64URL(text[i]) {
			return Token{}, false
		}
	}
	return Token{text: &text}, true
}

func isBase64URL(c byte) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

func (t Token) id() string { return (*t.text)[:idText] }

func (t Token) hash() [sha256.Size]byte { return sha256.Sum256([]byte((*t.text)[idText+1:])) }

// withSecret returns the token of the same session with another secret.
func (t Token) withSecret(secret string) Token { return tokenOf(t.id(), secret) }

// Reveal returns the text of the token, to be given to the client and to
// nobody else. That of the zero Token is empty.
func (t Token) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// String returns "[redacted]".
func (t Token) String() string { return redacted }

// Format writes "[redacted]" for every verb.
func (t Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue is "[redacted]".
func (t Token) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns "[redacted]".
func (t Token) MarshalText() ([]byte, error) { return []byte(redacted), nil }
