package session

import (
	"testing"
	"time"
)

// TestConflictDelay: the wait after a conflict is random, follows what a save
// takes, doubles with each try, and has its bounds.
func TestConflictDelay(t *testing.T) {
	for _, tt := range []struct {
		took time.Duration
		try  int
		most time.Duration
	}{
		{0, 1, 5 * time.Millisecond},
		{0, 2, 10 * time.Millisecond},
		{time.Millisecond, 1, 8 * time.Millisecond},
		{time.Millisecond, 3, 32 * time.Millisecond},
		{time.Millisecond, mostTries, time.Second},
		{time.Hour, 1, time.Second},
	} {
		var longest time.Duration
		for range 1000 {
			d := conflictDelay(tt.took, tt.try)
			if d <= 0 {
				t.Fatalf("conflictDelay(%v, %d) = %v", tt.took, tt.try, d)
			}
			longest = max(longest, d)
		}
		if longest > tt.most || longest < tt.most*9/10 {
			t.Errorf("conflictDelay(%v, %d) was up to %v, want up to %v", tt.took, tt.try, longest, tt.most)
		}
	}
}
