package locationtest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/location"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A mutant is a memory driver with a fault that such drivers have had, and the
// check that has to find it.
type mutant struct {
	name  string
	finds string
	spoil func(f *broken, good location.Driver)
}

// A broken driver is one whose listings can be spoiled too.
type broken struct {
	faulty
	edit func(l *location.Listing)
}

func (b *broken) List(ctx context.Context, service, known string) (location.Listing, error) {
	l, err := b.faulty.List(ctx, service, known)
	if b.edit != nil {
		b.edit(&l)
	}
	return l, err
}

var mutants = []mutant{
	{"forgets a field", "what is registered is listed, every field of it", func(f *broken, _ location.Driver) {
		f.edit = func(l *location.Listing) {
			for i := range l.Endpoints {
				l.Endpoints[i].Zone = ""
			}
		}
	}},
	{"the same registration is news", "registering again with the same token changes nothing", func(f *broken, _ location.Driver) {
		n := 0
		f.edit = func(l *location.Listing) {
			n++
			l.Version, l.Same = fmt.Sprint(n), false
		}
	}},
	{"registering again does not renew", "registering again with the same token renews", func(f *broken, good location.Driver) {
		done := map[string]bool{}
		f.register = func(ctx context.Context, name string, in location.Instance, takeover bool) error {
			if done[in.Token] {
				return nil
			}
			done[in.Token] = true
			return good.Register(ctx, name, in, takeover)
		}
	}},
	{"the first endpoint stays", "a changed endpoint is another version", func(f *broken, good location.Driver) {
		done := map[string]bool{}
		f.register = func(ctx context.Context, name string, in location.Instance, takeover bool) error {
			if done[in.Token] {
				return nil
			}
			done[in.Token] = true
			return good.Register(ctx, name, in, takeover)
		}
	}},
	{"whoever comes gets the id", "LO-3 an id that is registered is refused to another token", func(f *broken, good location.Driver) {
		f.register = func(ctx context.Context, name string, in location.Instance, _ bool) error {
			return good.Register(ctx, name, in, true)
		}
	}},
	{"removes by id", "LO-3 who was taken over from changes nothing any more", func(f *broken, good location.Driver) {
		last := map[string]location.Instance{}
		f.register = func(ctx context.Context, name string, in location.Instance, takeover bool) error {
			err := good.Register(ctx, name, in, takeover)
			if err == nil {
				last[in.Endpoint.ID] = in
			}
			return err
		}
		f.deregister = func(ctx context.Context, name string, in location.Instance) error {
			return good.Deregister(ctx, name, last[in.Endpoint.ID])
		}
	}},
	{"renewing makes the lease again", "LO-5 a lease ends after its TTL and renewing makes none", func(f *broken, good location.Driver) {
		f.renew = func(ctx context.Context, name string, in location.Instance) error {
			return good.Register(ctx, name, in, false)
		}
	}},
	{"leases last longer", "LO-5 a lease ends after its TTL and renewing makes none", func(f *broken, good location.Driver) {
		f.register = func(ctx context.Context, name string, in location.Instance, takeover bool) error {
			in.TTL += time.Second
			return good.Register(ctx, name, in, takeover)
		}
	}},
	{"ids are never free again", "an id whose lease has ended is free", func(f *broken, good location.Driver) {
		f.register = func(ctx context.Context, name string, in location.Instance, takeover bool) error {
			in.TTL = time.Hour
			return good.Register(ctx, name, in, takeover)
		}
	}},
	{"renewing does not extend", "renewing extends", func(f *broken, _ location.Driver) {
		f.renew = func(context.Context, string, location.Instance) error { return nil }
	}},
	{"renewing nothing is fine", "renewing what there never was is lost", func(f *broken, _ location.Driver) {
		f.renew = func(context.Context, string, location.Instance) error { return nil }
	}},
	{"a late registration comes back", "deregistering ends the token for good", func(f *broken, good location.Driver) {
		f.register = func(ctx context.Context, name string, in location.Instance, takeover bool) error {
			err := good.Register(ctx, name, in, takeover)
			if err != nil {
				in.Token += "x"
				err = good.Register(ctx, name, in, takeover)
			}
			return err
		}
	}},
	{"only a token that was there can be gone", "a token that was deregistered before it came in is refused", func(f *broken, good location.Driver) {
		known := map[string]bool{}
		f.register = func(ctx context.Context, name string, in location.Instance, takeover bool) error {
			known[in.Token] = true
			return good.Register(ctx, name, in, takeover)
		}
		f.deregister = func(ctx context.Context, name string, in location.Instance) error {
			if !known[in.Token] {
				return nil
			}
			return good.Deregister(ctx, name, in)
		}
	}},
	{"empty is unknown", "LO-8 LO-9 unknown, emptied and expired are told apart", func(f *broken, _ location.Driver) {
		f.edit = func(l *location.Listing) { l.Known = l.Known && len(l.Endpoints) > 0 }
	}},
	{"unknown is empty", "LO-9 an unknown service is told at once and is not empty", func(f *broken, _ location.Driver) {
		f.edit = func(l *location.Listing) { l.Known = true }
	}},
	{"expired is emptied", "LO-8 when all leases run out the last known are served until MaxStale", func(f *broken, _ location.Driver) {
		f.edit = func(l *location.Listing) { l.Emptied = l.Known && len(l.Endpoints) == 0 }
	}},
	{"emptied is expired", "LO-8 the last one's deregistration empties at once", func(f *broken, _ location.Driver) {
		f.edit = func(l *location.Listing) { l.Emptied = false }
	}},
	{"expiry is no new version", "versions stand for content", func(f *broken, _ location.Driver) {
		f.edit = func(l *location.Listing) {
			if i := slices.Index([]byte(l.Version), '/'); i > 0 {
				l.Version = l.Version[:len(l.Version)-2]
			}
		}
	}},
	{"always the same", "LO-10 events are whole, sorted, and only for changes", func(f *broken, _ location.Driver) {
		f.edit = func(l *location.Listing) { l.Same = l.Known }
	}},
	{"does not tell of a return", "a return after all leases ran out is told", func(f *broken, _ location.Driver) {
		f.edit = func(l *location.Listing) { l.SinceVoid = 0 }
	}},
	{"does not tell of a return, to those who look", "instances come back one by one after all leases ran out", func(f *broken, _ location.Driver) {
		f.edit = func(l *location.Listing) { l.SinceVoid = 0 }
	}},
	{"services are found by prefix", "LO-25 services with a common prefix do not mix", func(f *broken, good location.Driver) {
		f.list = func(ctx context.Context, name, known string) (location.Listing, error) {
			l, err := good.List(ctx, name, "")
			more, _ := good.List(ctx, name+"-admin", "")
			l.Endpoints = append(l.Endpoints, more.Endpoints...)
			return l, err
		}
	}},
	{"contexts are ignored", "an ended context changes nothing", func(f *broken, good location.Driver) {
		f.deregister = func(ctx context.Context, name string, in location.Instance) error {
			return good.Deregister(context.WithoutCancel(ctx), name, in)
		}
	}},
	{"nobody hears", "news name the service", func(f *broken, good location.Driver) {
		f.listen = func(ctx context.Context, wake func(string)) error {
			return good.Listen(ctx, func(name string) {
				if name == "" {
					wake(name)
				}
			})
		}
	}},
	{"does not say when it begins to hear", "news name the service", func(f *broken, good location.Driver) {
		f.listen = func(ctx context.Context, wake func(string)) error {
			return good.Listen(ctx, func(name string) {
				if name != "" {
					wake(name)
				}
			})
		}
	}},
	{"heartbeats are news", "news name the service", func(f *broken, good location.Driver) {
		var wakes []func(string)
		f.listen = func(ctx context.Context, wake func(string)) error {
			wakes = append(wakes, wake)
			return good.Listen(ctx, wake)
		}
		f.renew = func(ctx context.Context, name string, in location.Instance) error {
			for _, wake := range wakes {
				wake(name)
			}
			return good.Renew(ctx, name, in)
		}
	}},
	{"a page of them is enough", "many instances", func(f *broken, _ location.Driver) {
		f.edit = func(l *location.Listing) { l.Endpoints = l.Endpoints[:min(100, len(l.Endpoints))] }
	}},
	{"gives its own maps away", "snapshots share nothing", func(f *broken, good location.Driver) {
		var kept location.Listing
		f.edit = func(l *location.Listing) {
			if kept.Version == "" {
				kept = *l
			}
			*l = kept
		}
		f.register = func(ctx context.Context, name string, in location.Instance, takeover bool) error {
			kept.Version, kept.Known, kept.Endpoints = "1", true, []location.Endpoint{in.Endpoint}
			return good.Register(ctx, name, in, takeover)
		}
	}},
}

// A check that has never failed is unproven.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			i := slices.IndexFunc(checks, func(c check) bool { return c.name == m.finds })
			if i < 0 {
				t.Fatalf("there is no check %q", m.finds)
			}
			good := failures(t, checks[i], func(*broken, location.Driver) {})
			if len(good) > 0 {
				t.Fatalf("%q fails without a fault: %v", m.finds, good)
			}
			if found := failures(t, checks[i], m.spoil); len(found) == 0 {
				t.Errorf("%q does not find it", m.finds)
			} else {
				t.Log(found[0])
			}
		})
	}
}

// failures runs a check on a spoiled driver and returns what it reports.
func failures(t *testing.T, c check, spoil func(*broken, location.Driver)) (found []string) {
	synctest.Test(t, func(t *testing.T) {
		store := location.NewMemoryDriver()
		f := &broken{faulty: faulty{Driver: store}}
		spoil(f, store)
		found = testkit.Record(t.Context(), func(rec *testkit.Recorder) {
			c.fn(&run{reporter: rec, connect: func() location.Driver { return f }, ttl: 6 * time.Second, poll: 3 * time.Second, fake: true})
		})
	})
	return found
}
