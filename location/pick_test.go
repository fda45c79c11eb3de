package location

import (
	"errors"
	"testing"
)

// Whichever of the two was drawn first, the one that sits out has sat out once
// more, and the idle one is picked.
func TestBetter(t *testing.T) {
	sits, other := &node{weight: 1}, &node{weight: 1}
	sits.sits.Store(8)
	for range 4 {
		if better(sits, other) != other || better(other, sits) != other {
			t.Fatal("the one that sits out is picked")
		}
	}
	if n := sits.sits.Load(); n != 0 {
		t.Errorf("it sits out %d more times, want none", n)
	}
	if better(sits, other) != sits || better(other, sits) != other {
		t.Error("of two alike the second is picked")
	}
}

func TestDone(t *testing.T) {
	n := &node{weight: 1}
	p := Picked{node: n}
	for _, want := range []int64{8, 16, 32, 64, 128, 256, 512, 1024, 1024} {
		if p.Done(errors.New("failed")); n.sits.Load() != want {
			t.Errorf("it sits out %d times, want %d", n.sits.Load(), want)
		}
	}
	p.Done(nil)
	if n.sits.Load() != 0 {
		t.Errorf("it sits out %d times after a success, want none", n.sits.Load())
	}
	if p.Done(errors.New("failed")); n.sits.Load() != 8 {
		t.Errorf("it sits out %d times after one more failure, want 8", n.sits.Load())
	}
}

// What is known of an instance stays for as long as it does.
func TestChoiceKeepsNodes(t *testing.T) {
	a, b := Endpoint{ID: "a", Host: "a", Port: 80}, Endpoint{ID: "b", Host: "b", Port: 80}
	first := newChoice(nil, Snapshot{endpoints: []Endpoint{a, b}}, nil)
	b.Weight = 2
	second := newChoice(first, Snapshot{endpoints: []Endpoint{a, b}}, nil)
	if second.nodes[0] != first.nodes[0] || second.nodes[1] == first.nodes[1] {
		t.Error("nodes: want a kept, and b, which has changed, made anew")
	}
}
