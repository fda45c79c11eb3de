package relocation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fakeWait waits until what the test waits for is so, in fake time.
func fakeWait(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Hour)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not so after an hour", what)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
	}
}

func fakeState(t *testing.T, c *Conn, want State) {
	t.Helper()
	fakeWait(t, "state "+want.String(), func() bool { return c.State() == want })
}

func sendAll(t *testing.T, c *Conn, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := c.Send(t.Context(), []byte(text)); err != nil {
			t.Fatalf("Send(%q) error = %v, want nil", text, err)
		}
	}
}

func flush(t *testing.T, c *Conn) {
	t.Helper()
	if err := c.Flush(t.Context()); err != nil {
		t.Fatalf("Flush error = %v, want nil", err)
	}
}

func receive(t *testing.T, c *Conn, want string) Message {
	t.Helper()
	m, err := c.Receive(t.Context())
	if string(m.Data) != want || err != nil {
		t.Fatalf("Receive = %q, %v, want %q", m.Data, err, want)
	}
	return m
}

func numbered(from, to int) []string {
	var texts []string
	for i := from; i <= to; i++ {
		texts = append(texts, fmt.Sprint(i))
	}
	return texts
}

func TestConnCarriesBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		c := f.dial(nil, "a")
		if c.State() != Connected || c.Addr() != "a" {
			t.Errorf("after Dial: %v at %q, want CONNECTED at a", c.State(), c.Addr())
		}
		sendAll(t, c, numbered(1, 100)...)
		flush(t, c)
		if got := f.got(); !slices.Equal(got, numbered(1, 100)) {
			t.Errorf("the server got %v", got)
		}
		for i := range 100 {
			f.peer("a").send(fmt.Sprint("s", i))
		}
		for i := range 100 {
			if m := receive(t, c, fmt.Sprint("s", i)); m.Seq != uint64(i+1) || m.Redelivered {
				t.Errorf("Receive = %+v, want number %d", m, i+1)
			}
		}
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("Close error = %v, want nil", err)
		}
		if !f.session().ended {
			t.Errorf("the session goes on after Close")
		}
	})
}

func TestConnResumesElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b")
		c := f.dial(nil, "a", "b")
		for round := range 100 {
			sendAll(t, c, fmt.Sprint(2*round+1))
			f.stop(c.Addr())
			sendAll(t, c, fmt.Sprint(2*round+2))
			for _, addr := range []string{"a", "b"} {
				f.start(addr)
			}
			flush(t, c)
		}
		seen := f.got()
		for i, text := range seen {
			seen[i] = strings.TrimSuffix(text, " again")
		}
		if !slices.Equal(seen, numbered(1, 200)) {
			t.Errorf("the server got %v", seen)
		}
	})
}
