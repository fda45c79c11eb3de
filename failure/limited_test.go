package failure

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The context of a Timeout is as others are, whoever asks it first, and for
// what.
func TestLimited(t *testing.T) {
	over := errors.New("over")
	type key struct{}
	bubble := func(f func(t *testing.T, parent context.Context, cancel func(), l *limited)) {
		synctest.Test(t, func(t *testing.T) {
			parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
			defer cancel()
			l := limit(parent, time.Second, over)
			defer l.end()
			f(t, parent, cancel, l)
		})
	}
	for name, look := range map[string]func(l *limited){
		"nobody": func(*limited) {}, "Done": func(l *limited) { l.Done() }, "Err": func(l *limited) { _ = l.Err() },
		"a child": func(l *limited) {
			_, cancel := context.WithCancel(l)
			t.Cleanup(cancel)
		},
	} {
		bubble(func(t *testing.T, _ context.Context, _ func(), l *limited) {
			look(l)
			if deadline, ok := l.Deadline(); !ok || time.Until(deadline) != time.Second || l.Err() != nil || l.isOver() || l.Value(key{}) != "v" {
				t.Errorf("%s asked: Deadline = %v, Err = %v, Value = %v", name, deadline, l.Err(), l.Value(key{}))
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if l.Err() != context.DeadlineExceeded || context.Cause(l) != over || !l.isOver() || l.Value(key{}) != "v" {
				t.Errorf("%s asked: Err = %v, Cause = %v after its time", name, l.Err(), context.Cause(l))
			}
			<-l.Done()
			l.end()
			if l.Err() != context.DeadlineExceeded {
				t.Errorf("%s asked: Err = %v after its end", name, l.Err())
			}
		})
		bubble(func(t *testing.T, _ context.Context, _ func(), l *limited) {
			look(l)
			l.end()
			if l.Err() != context.Canceled || l.isOver() {
				t.Errorf("%s asked: Err = %v after its end", name, l.Err())
			}
			<-l.Done()
			time.Sleep(time.Hour)
			if l.Err() != context.Canceled || l.isOver() {
				t.Errorf("%s asked: Err = %v long after its end", name, l.Err())
			}
		})
		bubble(func(t *testing.T, _ context.Context, cancel func(), l *limited) {
			look(l)
			cancel()
			if l.Err() != context.Canceled || l.isOver() {
				t.Errorf("%s asked: Err = %v after that of its parent", name, l.Err())
			}
			<-l.Done()
		})
	}
	bubble(func(t *testing.T, _ context.Context, _ func(), l *limited) {
		child, cancel := context.WithCancel(l)
		defer cancel()
		inner := limit(child, time.Minute, errors.New("inner"))
		defer inner.end()
		if deadline, _ := inner.Deadline(); time.Until(deadline) != time.Second {
			t.Errorf("Deadline = %v, want the nearer one", deadline)
		}
		<-inner.Done()
		if inner.Err() != context.DeadlineExceeded || context.Cause(inner) != over || context.Cause(child) != over || inner.isOver() || !l.isOver() {
			t.Errorf("Err = %v, Cause = %v, want those of the parent", inner.Err(), context.Cause(inner))
		}
	})
}
