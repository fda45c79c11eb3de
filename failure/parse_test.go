package failure

import (
	"errors"
	"testing"

	"github.com/go-transparency/transparency"
)

// What is in the store may be anything. It is a view that makes sense, or an
// error of a class.
func FuzzParseView(f *testing.F) {
	f.Add("1700000000000000", int64(1), int64(10), int64(20), int64(1), int64(3), int64(2), 7)
	f.Add("", int64(-1), int64(1<<62), int64(0), int64(0), int64(0), int64(0), 7)
	f.Add("1.7e+15", int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), 0)
	f.Fuzz(func(t *testing.T, gen string, a, b, c, d, e, g int64, n int) {
		reply := []any{gen, a, b, c, d, e, g}
		v, err := parseView(reply[:min(max(n, 0), 7)], nil)
		if err != nil {
			if !errors.Is(err, transparency.ErrInvalid) || v != (View{}) {
				t.Errorf("parseView(%v) = %+v, %v, want ErrInvalid alone", reply, v, err)
			}
			return
		}
		if v.Remaining < 0 || v.Probing < 0 || v.Live < 0 || v.Votes < 0 {
			t.Errorf("parseView(%v) = %+v", reply, v)
		}
	})
}

func TestParseView(t *testing.T) {
	for _, reply := range []any{nil, int64(1), "text", []any{}, []any{int64(7), 1, 2, 3, 4, 5, 6}, []any{"7", "1", "2", "3", "4", "5", "6"}} {
		if v, err := parseView(reply, nil); !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("parseView(%v) = %+v, %v, want ErrInvalid", reply, v, err)
		}
	}
}
