package relocation

import (
	"fmt"
	"math"
)

// An Ownership says for whom a position advances. A [*Session] is one, and in
// tests anything with these methods.
type Ownership interface {
	// ID returns the name of the session.
	ID() string
	// Generation returns how many owners it has had, this one included.
	Generation() uint64
}

// checkAdvance returns why no position can advance like that.
func checkAdvance(o Ownership, seq uint64) error {
	switch {
	case o == nil:
		return invalid("there is no session")
	case o.Generation() == 0 || o.Generation() > math.MaxInt64:
		return invalid("the generation %d is none", o.Generation())
	case seq == 0 || seq > maxSeq:
		return invalid("the sequence number %d is none", seq)
	}
	return nil
}

// positionRefusal says why a message may not have its effect: what stands in
// the database is of generation, and at seq.
func positionRefusal(o Ownership, wanted, generation, seq uint64) error {
	switch {
	case generation > o.Generation():
		return fmt.Errorf("%w: generation %d after %d", ErrFenced, o.Generation(), generation)
	case seq >= wanted:
		return fmt.Errorf("%w: %d after %d", ErrDuplicate, wanted, seq)
	}
	return fmt.Errorf("%w: %d after %d", ErrStateRegressed, wanted, seq)
}

// positionFailed names the package and the operation.
func positionFailed(err error) error { return fmt.Errorf("relocation: position: %w", err) }
