package failure

import (
	"context"
	"errors"

	"github.com/go-transparency/transparency"
)

// An Outcome is what a call says about the health of the service.
type Outcome uint8

const (
	// Succeeded means that the service answered.
	Succeeded Outcome = iota
	// Failed means that it did not, or not in time.
	Failed
	// Ignored means that the call says nothing about the service.
	Ignored
)

// String returns "succeeded", "failed" or "ignored".
func (o Outcome) String() string {
	switch o {
	case Succeeded:
		return "succeeded"
	case Failed:
		return "failed"
	}
	return "ignored"
}

// Classify is how a breaker judges a call that its options say nothing about:
//
//	Succeeded  no error; or [transparency.ErrDenied]: the service refuses the caller, and is there
//	Ignored    ctx, that of the caller, was cancelled; or [transparency.ErrRejected] from within:
//	           nothing was sent; or [transparency.ErrInvalid]: it may have been seen on this side
//	Failed     any other error, context.DeadlineExceeded among them, whoever set the deadline:
//	           else a service that hangs would never open a breaker
//
// An error that is an answer, such as a package's "not found", cannot be told
// from a failure here: name it in [BreakerOptions].Answers.
func Classify(ctx context.Context, err error) Outcome {
	switch {
	case err == nil, errors.Is(err, transparency.ErrDenied):
		return Succeeded
	case ctx.Err() == context.Canceled, //nolint:errorlint // Err returns it unwrapped
		errors.Is(err, transparency.ErrRejected), errors.Is(err, transparency.ErrInvalid):
		return Ignored
	}
	return Failed
}
