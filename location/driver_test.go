package location_test

import (
	"context"
	"errors"
	"testing"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/location"
)

// failing is a driver whose errors have no class.
type failing struct {
	*location.MemoryDriver
	err   error
	asked func() // after Register, or nil
}

func (d *failing) Register(ctx context.Context, service string, in location.Instance, takeover bool) error {
	if d.asked != nil {
		defer d.asked()
	}
	return errors.Join(d.MemoryDriver.Register(ctx, service, in, takeover), d.err)
}

func (d *failing) Deregister(context.Context, string, location.Instance) error { return d.err }

func (d *failing) List(context.Context, string, string) (location.Listing, error) {
	return location.Listing{}, d.err
}

// An error of a driver that says nothing of the outcome gets the class that
// promises least.
func TestDriverErrorWithoutClass(t *testing.T) {
	trouble := errors.New("trouble")
	d := &failing{MemoryDriver: location.NewMemoryDriver()}
	r := location.NewRegistry(d, nil)
	defer r.Close()
	g := mustRegister(t, r, at("h1"))
	d.err = trouble
	wantErr(t, "Deregister", g.Deregister(t.Context()), trouble, transparency.ErrUncertain)
	_, err := r.Resolve(t.Context(), service)
	wantErr(t, "Resolve", err, trouble, transparency.ErrUnavailable)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	d.asked = leave
	_, err = r.Register(ctx, service, at("h2"))
	wantErr(t, "Register", err, trouble, transparency.ErrUncertain, context.Canceled)
}

// LO-28: a snapshot has one endpoint for each place. Who comes back under
// another id, while the lease of the former self lasts, does not wait for its
// end.
func TestWaitVisibleAtOnePlace(t *testing.T) {
	r := location.NewMemory(nil)
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit)
	defer cancel()
	for range 3 {
		g := mustRegister(t, r, location.Endpoint{Host: "h1", Port: 80})
		if err := g.WaitVisible(ctx); err != nil {
			t.Errorf("WaitVisible error = %v, want nil", err)
		}
	}
}
