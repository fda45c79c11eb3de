package relocation

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// RL-45: whatever is printed, keys, tokens, messages and names of sessions are
// not.
func TestPrintsNoSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHubRig(t)
		key := []byte("a secret key that is long enough")
		var session *Session
		opts := HubOptions{Name: "a", Keys: [][]byte{key}, Attached: func(_ context.Context, s *Session) { session = s }}
		hub := r.start("a", &opts)
		r.handle = func(ctx context.Context, _ string, _ *Session, _ Message) error {
			<-ctx.Done()
			return ctx.Err()
		}
		c := dialHubs(r, "a")
		for range 3 {
			if err := c.Send(t.Context(), []byte("a secret message")); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		secrets := []string{session.id}
		for _, p := range [][]byte{key, []byte("a secret message"), c.token} {
			decimal := strings.Trim(fmt.Sprintf("%d", p[:8]), "[]")
			goSyntax := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", p[:8]), "[]byte{"), "}")
			secrets = append(secrets, string(p), decimal, goSyntax, hex.EncodeToString(p[:8]))
		}
		for _, v := range []any{hub, session, opts, &opts, c, r.store, r.net, (*Hub)(nil), (*Session)(nil), (*MemoryStore)(nil)} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "json"} {
				text := fmt.Sprintf(verb, v)
				if verb == "json" {
					b, _ := json.Marshal(v)
					text = string(b)
				}
				for _, secret := range secrets {
					if strings.Contains(text, secret) {
						t.Errorf("%T printed with %s has %q", v, verb, secret)
					}
				}
			}
		}
	})
}
