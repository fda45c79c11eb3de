package transparency_test

import (
	"errors"
	"fmt"

	"github.com/go-transparency/transparency"
)

// What a caller may conclude, and so what it does next, is in the class.
func ExampleRetryable() {
	refused := fmt.Errorf("session: load: %w: connection refused", transparency.ErrUnavailable)
	silent := fmt.Errorf("session: save: %w: no reply within 2s", transparency.ErrUncertain)
	for _, err := range []error{refused, silent} {
		switch {
		case transparency.Retryable(err):
			fmt.Println("try again:", err)
		case errors.Is(err, transparency.ErrUncertain):
			fmt.Println("look first:", err)
		}
	}
	// Output:
	// try again: session: load: unavailable: connection refused
	// look first: session: save: outcome unknown: no reply within 2s
}
