package replicatest

import (
	"context"
	"errors"
	"time"

	"github.com/go-transparency/transparency/internal/testkit"
	"github.com/go-transparency/transparency/replica"
)

func replicated[C any](c Cluster[C]) bool { return c.Replicated }
func canStop[C any](c Cluster[C]) bool    { return c.Down != nil && c.Heal != nil }
func canHang[C any](c Cluster[C]) bool    { return c.Hang != nil && c.Heal != nil }
func canPromote[C any](c Cluster[C]) bool { return c.Promote != nil }

func backendChecks[C any]() []check[C] {
	return []check[C]{
		{"a probe tells the role", false, nil, func(r *run[C]) {
			for i, n := range r.Nodes {
				want := replica.RoleReplica
				if i == 0 {
					want = replica.RolePrimary
				}
				if s := r.probe(n); s.Role != want || s.LinkDown != 0 {
					r.Errorf("Probe(%v) = %+v, want role %v and no broken link", n, s, want)
				}
			}
		}},
		{"offsets tell what has arrived", false, replicated[C], func(r *run[C]) {
			before := r.probe(r.Nodes[0])
			r.set(r.Nodes[0], "key", "1")
			after := r.probe(r.Nodes[0])
			if after.Epoch == "" || after.Epoch != before.Epoch || after.Offset <= before.Offset {
				r.Errorf("Probe before and after a write = %+v, %+v, want a greater offset of the same epoch", before, after)
			}
			for _, n := range r.Nodes[1:] {
				r.eventually("the write arrives at "+n.Name, testkit.Limit, func() bool {
					s := r.probe(n)
					if s.Epoch != after.Epoch || s.Offset < after.Offset {
						return false
					}
					if v, ok, err := r.Get(r.Context(), n.Client, "key"); v != "1" || !ok || err != nil {
						r.Errorf("Get at offset %d (written by %d) = %q, %v, %v, want the write", s.Offset, after.Offset, v, ok, err)
					}
					return true
				})
			}
		}},
		{"RP-36 a write at a replica is misrouted", false, replicated[C], func(r *run[C]) {
			for _, n := range r.Nodes[1:] {
				err := r.Set(r.Context(), n.Client, "key", "1")
				if err == nil {
					r.Errorf("Set at replica %v = nil, want a refusal", n)
				} else if class := r.Backend.Classify(err, replica.RoleReplica); class != replica.ClassMisrouted {
					r.Errorf("Classify(%v) = %v, want %v", err, class, replica.ClassMisrouted)
				}
			}
		}},
		{"RP-26 errors of the callback are answers", false, nil, func(r *run[C]) {
			for _, role := range []replica.Role{replica.RolePrimary, replica.RoleReplica} {
				if class := r.Backend.Classify(errors.New("no such customer"), role); class != replica.ClassApp {
					r.Errorf("Classify of an error of the callback's own = %v, want %v", class, replica.ClassApp)
				}
			}
		}},
		{"the end of a context tells nothing", false, nil, func(r *run[C]) {
			for _, err := range []error{context.Canceled, context.DeadlineExceeded} {
				if class := r.Backend.Classify(err, replica.RolePrimary); class != replica.ClassUnknown {
					r.Errorf("Classify(%v) = %v, want %v", err, class, replica.ClassUnknown)
				}
			}
		}},
		{"a node that is down was sent nothing", false, canStop[C], func(r *run[C]) {
			n := r.Nodes[0]
			r.Down(n.Name)
			// The first error may be that of a connection that was there.
			r.eventually("Set at a node that is down is told from one that was sent", testkit.Limit, func() bool {
				err := r.Set(r.Context(), n.Client, "key", "1")
				if err == nil {
					r.Fatalf("Set at a node that is down = nil")
				}
				class := r.Backend.Classify(err, replica.RolePrimary)
				if class != replica.ClassDown && class != replica.ClassUnknown {
					r.Fatalf("Classify(%v) = %v, want %v", err, class, replica.ClassDown)
				}
				return class == replica.ClassDown
			})
			if _, err := r.Backend.Probe(r.Context(), n); err == nil {
				r.Errorf("Probe of a node that is down = nil error")
			}
		}},
		{"a probe ends with its context", false, canHang[C], func(r *run[C]) {
			n := r.Nodes[1]
			r.probe(n)
			r.Hang(n.Name)
			var err error
			testkit.OnTime(r, 1, 100*time.Millisecond, func(ctx context.Context, _ int) {
				_, err = r.Backend.Probe(ctx, n)
			})
			if err == nil {
				r.Errorf("Probe of a node that hangs = nil, want an error")
			} else if class := r.Backend.Classify(err, replica.RoleReplica); class != replica.ClassUnknown && class != replica.ClassDown {
				r.Errorf("Classify(%v) = %v, want one that counts against the node", err, class)
			}
			r.Heal(n.Name)
			r.eventually("the node answers again", testkit.Limit, func() bool {
				_, err := r.Backend.Probe(r.Context(), n)
				return err == nil
			})
		}},
		{"RP-36 a promotion begins a history and names the last", false, canPromote[C], func(r *run[C]) {
			r.set(r.Nodes[0], "key", "1")
			old, next := r.probe(r.Nodes[0]), r.Nodes[1]
			r.eventually("the write arrives", testkit.Limit, func() bool { return r.probe(next).Offset >= old.Offset })
			r.Promote(next.Name)
			r.eventually("the promoted node says so", testkit.Limit, func() bool { return r.probe(next).Role == replica.RolePrimary })
			s := r.probe(next)
			if s.Epoch == "" || s.Epoch == old.Epoch || s.Previous != old.Epoch {
				r.Errorf("Probe after promotion = %+v, want an epoch that branched from %q", s, old.Epoch)
			}
			r.eventually("the old primary follows", testkit.Limit, func() bool {
				s := r.probe(r.Nodes[0])
				return s.Role == replica.RoleReplica && s.LinkDown == 0
			})
		}},
	}
}

func (r *run[C]) probe(n replica.Node[C]) replica.Status {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	s, err := r.Backend.Probe(ctx, n)
	if err != nil {
		r.Fatalf("Probe(%v) error = %v", n, err)
	}
	return s
}

func (r *run[C]) set(n replica.Node[C], key, value string) {
	r.Helper()
	if err := r.Set(r.Context(), n.Client, key, value); err != nil {
		r.Fatalf("Set(%q) at %v error = %v", key, n, err)
	}
}
