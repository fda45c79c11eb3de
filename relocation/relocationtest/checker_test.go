package relocationtest

import (
	"errors"
	"strings"
	"testing"
)

func send(c *Checker, payloads ...string) {
	for _, p := range payloads {
		_ = c.Send("s", p, func([]byte) error { return nil })
	}
}

func handle(c *Checker, generation, seq uint64, payload string, again bool) {
	c.Handle("s", Handling{Seq: seq, Payload: payload, Redelivered: again, Generation: generation})
}

// Each history has the one fault that is named, or none.
func TestChecker(t *testing.T) {
	for _, tt := range []struct {
		name    string
		history func(*Checker)
		want    string // empty: nothing is wrong
	}{
		{"in order", func(c *Checker) {
			send(c, "a", "b")
			handle(c, 1, 1, "a", false)
			handle(c, 1, 2, "b", false)
		}, ""},
		{"marked, by a new owner", func(c *Checker) {
			send(c, "a", "b", "c")
			handle(c, 1, 1, "a", false)
			handle(c, 1, 2, "b", false)
			handle(c, 2, 1, "a", true)
			handle(c, 2, 2, "b", true)
			handle(c, 2, 3, "c", true)
		}, ""},
		{"refused and never handled", func(c *Checker) {
			send(c, "a")
			_ = c.Send("s", "b", func([]byte) error { return errors.New("full") })
			send(c, "c")
			handle(c, 1, 1, "a", false)
			handle(c, 1, 2, "c", false)
		}, ""},
		{"handled while Send still waits", func(c *Checker) {
			_ = c.Send("s", "a", func([]byte) error { handle(c, 1, 1, "a", false); return nil })
		}, ""},
		{"lost", func(c *Checker) {
			send(c, "a", "b")
			handle(c, 1, 1, "a", false)
		}, `1 lost, the first "b"`},
		{"lost in the middle", func(c *Checker) {
			send(c, "a", "b", "c")
			handle(c, 1, 1, "a", false)
			handle(c, 1, 2, "c", false)
		}, `"b" was sent before and not handled`},
		{"doubled", func(c *Checker) {
			send(c, "a")
			handle(c, 1, 1, "a", false)
			handle(c, 2, 1, "a", false)
		}, "doubled, unmarked"},
		{"doubled by one owner", func(c *Checker) {
			send(c, "a")
			handle(c, 1, 1, "a", false)
			handle(c, 1, 1, "a", true)
		}, "doubled within generation 1"},
		{"reordered", func(c *Checker) {
			send(c, "a", "b")
			handle(c, 1, 2, "b", false)
			handle(c, 1, 1, "a", false)
		}, "2 came after 0"},
		{"a number used twice", func(c *Checker) {
			send(c, "a", "b")
			handle(c, 1, 1, "a", false)
			handle(c, 2, 1, "b", false)
		}, "1 came after 1"},
		{"made up", func(c *Checker) { handle(c, 1, 1, "a", false) }, "nobody sent"},
		{"handled though refused", func(c *Checker) {
			_ = c.Send("s", "a", func([]byte) error { return errors.New("full") })
			handle(c, 1, 1, "a", false)
		}, "Send had refused"},
		{"refused though handled", func(c *Checker) {
			_ = c.Send("s", "a", func([]byte) error { handle(c, 1, 1, "a", false); return errors.New("full") })
		}, "and Send says full"},
		{"an old owner goes on", func(c *Checker) {
			send(c, "a", "b")
			handle(c, 2, 1, "a", false)
			handle(c, 1, 2, "b", false)
		}, "in generation 1 after one of generation 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c Checker
			tt.history(&c)
			err := c.Final()
			if tt.want == "" && err != nil {
				t.Errorf("Final = %v, want nil", err)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Final = %v, want %q", err, tt.want)
			}
		})
	}
}
