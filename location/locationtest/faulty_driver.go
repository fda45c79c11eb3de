package locationtest

import (
	"context"
	"sync"

	"github.com/go-transparency/transparency/location"
)

// A faulty driver passes on to another what it is not told to spoil.
type faulty struct {
	location.Driver
	mu         sync.Mutex // guards what follows
	register   func(ctx context.Context, service string, in location.Instance, takeover bool) error
	renew      func(ctx context.Context, service string, in location.Instance) error
	deregister func(ctx context.Context, service string, in location.Instance) error
	list       func(ctx context.Context, service, known string) (location.Listing, error)
	listen     func(ctx context.Context, wake func(string)) error
	calls      int // of list
	beats      int // of register and renew
}

// spoil changes the faults.
func (f *faulty) spoil(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// down makes every operation fail with err, or none when it is nil.
func (f *faulty) down(err error) {
	f.spoil(func() {
		if err == nil {
			f.register, f.renew, f.deregister, f.list = nil, nil, nil, nil
			return
		}
		f.register = func(context.Context, string, location.Instance, bool) error { return err }
		f.renew = func(context.Context, string, location.Instance) error { return err }
		f.deregister = f.renew
		f.list = func(context.Context, string, string) (location.Listing, error) { return location.Listing{}, err }
	})
}

func (f *faulty) counts() (lists, beats int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls, f.beats
}

func (f *faulty) Register(ctx context.Context, service string, in location.Instance, takeover bool) error {
	f.mu.Lock()
	fn := f.register
	f.beats++
	f.mu.Unlock()
	if fn == nil {
		fn = f.Driver.Register
	}
	return fn(ctx, service, in, takeover)
}

func (f *faulty) Renew(ctx context.Context, service string, in location.Instance) error {
	f.mu.Lock()
	fn := f.renew
	f.beats++
	f.mu.Unlock()
	if fn == nil {
		fn = f.Driver.Renew
	}
	return fn(ctx, service, in)
}

func (f *faulty) Deregister(ctx context.Context, service string, in location.Instance) error {
	f.mu.Lock()
	fn := f.deregister
	f.mu.Unlock()
	if fn == nil {
		fn = f.Driver.Deregister
	}
	return fn(ctx, service, in)
}

func (f *faulty) List(ctx context.Context, service, known string) (location.Listing, error) {
	f.mu.Lock()
	fn := f.list
	f.calls++
	f.mu.Unlock()
	if fn == nil {
		fn = f.Driver.List
	}
	return fn(ctx, service, known)
}

func (f *faulty) Listen(ctx context.Context, wake func(string)) error {
	f.mu.Lock()
	fn := f.listen
	f.mu.Unlock()
	if fn == nil {
		fn = f.Driver.Listen
	}
	return fn(ctx, wake)
}
