package location

import (
	"errors"
	"testing"

	"github.com/go-transparency/transparency"
)

func FuzzDecodeEndpoint(f *testing.F) {
	for _, s := range []string{
		`{"id":"i1","scheme":"https","host":"h1","port":443,"zone":"z","priority":1,"weight":2,"meta":{"k":"v"}}`,
		`{"id":"i1","host":"::1","port":1}`, `null`, `[]`, `{"host":"h","port":-1}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := decodeEndpoint([]byte(text))
		if err != nil {
			if !errors.Is(err, transparency.ErrInvalid) {
				t.Errorf("error = %v, want ErrInvalid", err)
			}
			return
		}
		again, err := e.checked()
		if err != nil || !again.equal(e) {
			t.Errorf("%q became %#v, and that %#v, %v", text, e, again, err)
		}
	})
}

func TestParseListing(t *testing.T) {
	for _, reply := range []any{
		nil, "x", int64(1), []any{"v"}, []any{"v", "e", "0", int64(1)}, []any{"v", "e", "0", "x"}, []any{"v", "e", "0", "-1"},
		[]any{"v", "e", "0", "3600001"}, []any{"v", "e", "0"},
	} {
		if l, err := parseListing(reply, ""); !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("parseListing(%v) = %+v, %v, want ErrInvalid", reply, l, err)
		}
	}
	if l, err := parseListing([]any{}, ""); err != nil || l.Known {
		t.Errorf("parseListing of nothing = %+v, %v, want unknown", l, err)
	}
	l, err := parseListing([]any{"v", "e", "1", "5"}, "v")
	if err != nil || !l.Same || !l.Known || !l.Emptied || l.Epoch != "e" || l.SinceVoid.Milliseconds() != 5 {
		t.Errorf("parseListing = %+v, %v", l, err)
	}
}
