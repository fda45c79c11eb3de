package relocationtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-transparency/transparency/relocation"
)

// A storeMutant is a store with a fault that such stores have had, and the
// check that has to find it.
type storeMutant struct {
	name  string
	finds string
	spoil func(f *faulty, good relocation.Store)
}

// withTerms spoils the terms of sessions.
func withTerms(change func(*relocation.Terms)) func(*faulty, relocation.Store) {
	return func(f *faulty, good relocation.Store) {
		f.create = func(ctx context.Context, id string, terms relocation.Terms, c relocation.Claim) (relocation.Snapshot, error) {
			change(&terms)
			return good.Create(ctx, id, terms, c)
		}
	}
}

// withClaim spoils what is claimed by Attach.
func withClaim(change func(f *faulty, c *relocation.Claim)) func(*faulty, relocation.Store) {
	return func(f *faulty, good relocation.Store) {
		f.attach = func(ctx context.Context, id string, c relocation.Claim) (relocation.Snapshot, error) {
			change(f, &c)
			return good.Attach(ctx, id, c)
		}
	}
}

// withSnapshot spoils what Attach returns.
func withSnapshot(change func(s *relocation.Snapshot)) func(*faulty, relocation.Store) {
	return func(f *faulty, good relocation.Store) {
		f.attach = func(ctx context.Context, id string, c relocation.Claim) (relocation.Snapshot, error) {
			s, err := good.Attach(ctx, id, c)
			change(&s)
			return s, err
		}
	}
}

// withUpdate spoils what is committed.
func withUpdate(change func(f *faulty, u *relocation.Update)) func(*faulty, relocation.Store) {
	return func(f *faulty, good relocation.Store) {
		f.commit = func(ctx context.Context, lease relocation.Lease, u relocation.Update) (relocation.Progress, error) {
			change(f, &u)
			return good.Commit(ctx, lease, u)
		}
	}
}

// withLease spoils the leases of Commit and Renew.
func withLease(change func(f *faulty, lease *relocation.Lease)) func(*faulty, relocation.Store) {
	return func(f *faulty, good relocation.Store) {
		f.commit = func(ctx context.Context, lease relocation.Lease, u relocation.Update) (relocation.Progress, error) {
			change(f, &lease)
			return good.Commit(ctx, lease, u)
		}
		f.renew = func(ctx context.Context, leases []relocation.Lease) []relocation.Renewal {
			leases = slices.Clone(leases)
			for i := range leases {
				change(f, &leases[i])
			}
			return good.Renew(ctx, leases)
		}
	}
}

// withBatch spoils what is appended.
func withBatch(change func(f *faulty, b *relocation.Batch)) func(*faulty, relocation.Store) {
	return func(f *faulty, good relocation.Store) {
		f.append = func(ctx context.Context, id string, b relocation.Batch) (uint64, error) {
			change(f, &b)
			return good.Append(ctx, id, b)
		}
	}
}

// withRead spoils what is read.
func withRead(change func(messages []relocation.Outgoing) []relocation.Outgoing) func(*faulty, relocation.Store) {
	return func(f *faulty, good relocation.Store) {
		f.read = func(ctx context.Context, id string, after uint64, limit int) ([]relocation.Outgoing, error) {
			messages, err := good.Read(ctx, id, after, limit)
			return change(messages), err
		}
	}
}

var errSpoiled = errors.New("spoiled")

var storeMutants = slices.Concat(ownerMutants, commitMutants, outboxMutants, endMutants, eventMutants)

var ownerMutants = []storeMutant{
	{"creating again fails", "create", func(f *faulty, good relocation.Store) {
		f.create = func(ctx context.Context, id string, terms relocation.Terms, c relocation.Claim) (relocation.Snapshot, error) {
			if f.next() > 1 {
				return relocation.Snapshot{}, relocation.ErrExists
			}
			return good.Create(ctx, id, terms, c)
		}
	}},
	{"creating takes what is there", "create", func(f *faulty, good relocation.Store) {
		f.create = func(ctx context.Context, id string, terms relocation.Terms, c relocation.Claim) (relocation.Snapshot, error) {
			s, err := good.Create(ctx, id, terms, c)
			if errors.Is(err, relocation.ErrExists) {
				err = nil
			}
			return s, err
		}
	}},
	{"numbers begin anew on resume", "RL-33 generations rise over many drops", withSnapshot(func(s *relocation.Snapshot) {
		s.In, s.Out, s.Acked = 0, 0, 0
	})},
	{"generations stand still", "RL-33 generations rise over many drops", withSnapshot(func(s *relocation.Snapshot) {
		s.Generation = min(s.Generation, 2)
	})},
	{"generations are not compared", "RL-18 a former owner changes nothing", withLease(func(f *faulty, lease *relocation.Lease) {
		lease.Generation, lease.Owner = f.present.Generation, f.present.Owner
	})},
	{"a fenced change is lost quietly", "RL-18 a former owner changes nothing", func(f *faulty, good relocation.Store) {
		f.commit = func(ctx context.Context, lease relocation.Lease, u relocation.Update) (relocation.Progress, error) {
			p, err := good.Commit(ctx, lease, u)
			if errors.Is(err, relocation.ErrFenced) {
				err = nil
			}
			return p, err
		}
	}},
	{"a later generation is fenced like any other", "a generation that was never given away", func(f *faulty, good relocation.Store) {
		f.commit = func(ctx context.Context, lease relocation.Lease, u relocation.Update) (relocation.Progress, error) {
			p, err := good.Commit(ctx, lease, u)
			if errors.Is(err, relocation.ErrStateRegressed) {
				err = relocation.ErrFenced
			}
			return p, err
		}
	}},
	{"owners are not compared", "a generation that was never given away", withLease(func(f *faulty, lease *relocation.Lease) {
		lease.Owner = f.present.Owner
	})},
	{"principals are not compared", "RL-22 RL-24 unknown and another's are one", withClaim(func(_ *faulty, c *relocation.Claim) {
		c.Principal = "ada"
	})},
	{"another's is told from unknown", "RL-22 RL-24 unknown and another's are one", func(f *faulty, good relocation.Store) {
		f.attach = func(ctx context.Context, id string, c relocation.Claim) (relocation.Snapshot, error) {
			if c.Principal != "ada" {
				return relocation.Snapshot{}, errSpoiled
			}
			return good.Attach(ctx, id, c)
		}
	}},
	{"old tokens are taken", "RL-21 a token older than the confirmed one", withClaim(func(f *faulty, c *relocation.Claim) {
		_, s, _ := f.now()
		c.Serial = max(c.Serial, s.Generation)
	})},
	{"tokens are refused before the next is confirmed", "RL-21 a token older than the confirmed one",
		withUpdate(func(_ *faulty, u *relocation.Update) { u.Confirmed = false })},
	{"attempts are not compared", "attempts rise", withClaim(func(f *faulty, c *relocation.Claim) { c.Attempt += 100 * uint64(f.next()) })},
	{"what was received is not compared", "what the client says of numbers", withClaim(func(f *faulty, c *relocation.Claim) {
		_, s, _ := f.now()
		c.Received = s.Out
	})},
	{"what was acknowledged is not compared", "what the client says of numbers", withClaim(func(_ *faulty, c *relocation.Claim) {
		c.Acked = 0
	})},
	{"a session is taken that is owned", "a session that is owned", withClaim(func(_ *faulty, c *relocation.Claim) { c.Force = true })},
	{"a refusal counts as an attempt", "a session that is owned", func(f *faulty, good relocation.Store) {
		var last uint64
		f.attach = func(ctx context.Context, id string, c relocation.Claim) (relocation.Snapshot, error) {
			if c.Attempt <= last {
				return relocation.Snapshot{}, relocation.ErrSuperseded
			}
			last = c.Attempt
			return good.Attach(ctx, id, c)
		}
	}},
	{"nonces are not compared", "RL-45 a claim that comes again", withClaim(func(f *faulty, c *relocation.Claim) {
		c.Nonce += fmt.Sprint(f.next())
	})},
	{"leases do not end", "a lease that has ended", func(f *faulty, good relocation.Store) {
		f.attach = func(ctx context.Context, id string, c relocation.Claim) (relocation.Snapshot, error) {
			lease, _, _ := f.now()
			good.Renew(ctx, []relocation.Lease{lease})
			return good.Attach(ctx, id, c)
		}
	}},
	{"a lease that ended passes for released", "a lease that has ended", withSnapshot(func(s *relocation.Snapshot) {
		s.Released = true
	})},
	{"no change after the lease", "a lease that has ended and that nobody took", func(f *faulty, good relocation.Store) {
		began := time.Now()
		f.commit = func(ctx context.Context, lease relocation.Lease, u relocation.Update) (relocation.Progress, error) {
			if time.Since(began) > lease.Duration {
				return relocation.Progress{}, relocation.ErrFenced
			}
			return good.Commit(ctx, lease, u)
		}
	}},
	{"renewing renews nothing", "renewing", withLease(func(_ *faulty, lease *relocation.Lease) { lease.Duration /= 2 })},
	{"a lease cannot be ended", "ending a lease without releasing", withLease(func(_ *faulty, lease *relocation.Lease) {
		lease.Duration = time.Hour
	})},
	{"results out of order", "renewals have their results in order", func(f *faulty, good relocation.Store) {
		f.renew = func(ctx context.Context, leases []relocation.Lease) []relocation.Renewal {
			results := good.Renew(ctx, leases)
			slices.Reverse(results)
			return results
		}
	}},
}

var commitMutants = []storeMutant{
	{"acknowledgements are ignored", "numbers are raised", withUpdate(func(_ *faulty, u *relocation.Update) { u.Acked = 0 })},
	{"what was handled is ignored", "numbers are raised", withUpdate(func(_ *faulty, u *relocation.Update) { u.In = 0 })},
	{"marks are not compared", "RL-45 an update that comes again", func(f *faulty, good relocation.Store) {
		f.commit = func(ctx context.Context, lease relocation.Lease, u relocation.Update) (relocation.Progress, error) {
			_, _, mark := f.now()
			if n := f.next(); n > 1 {
				u.After, u.Mark = fmt.Sprint(mark, n-1), fmt.Sprint(mark, n)
			} else {
				u.Mark = fmt.Sprint(u.Mark, n)
			}
			return good.Commit(ctx, lease, u)
		}
	}},
	{"a lost update is not missed", "RL-46 an update after one that the store has not",
		withUpdate(func(f *faulty, u *relocation.Update) { _, _, u.After = f.now() })},
	{"acknowledgements are cut to what there is", "acknowledged beyond what there is",
		withUpdate(func(f *faulty, u *relocation.Update) {
			_, s, _ := f.now()
			u.Acked = min(u.Acked, s.Out)
		})},
	{"what was sent is not looked for", "what was sent is looked for",
		withUpdate(func(_ *faulty, u *relocation.Update) { u.Sent = relocation.Sent{} })},
	{"batches are not kept", "what was sent is looked for", withRead(func(messages []relocation.Outgoing) []relocation.Outgoing {
		for i := range messages {
			messages[i].Batch = ""
		}
		return messages
	})},
	{"no bound for messages", "the outbox is bounded", withTerms(func(t *relocation.Terms) { t.MaxMessages = 1 << 20 })},
	{"no bound for bytes", "the outbox is bounded", withTerms(func(t *relocation.Terms) { t.MaxBytes = 1 << 30 })},
	{"numbers are doubles", "RL-43 numbers of any size", func(f *faulty, good relocation.Store) {
		f.commit = func(ctx context.Context, lease relocation.Lease, u relocation.Update) (relocation.Progress, error) {
			p, err := good.Commit(ctx, lease, u)
			return relocation.Progress{Out: uint64(float64(p.Out)), First: uint64(float64(p.First))}, err
		}
	}},
	{"numbers are compared as text", "RL-43 numbers of any size", withUpdate(func(f *faulty, u *relocation.Update) {
		_, s, _ := f.now()
		if fmt.Sprint(u.In) < fmt.Sprint(s.In) {
			u.In = s.In
		}
	})},
	{"numbers turn over", "RL-43 the last number", func(f *faulty, good relocation.Store) {
		f.append = func(ctx context.Context, id string, b relocation.Batch) (uint64, error) {
			first, err := good.Append(ctx, id, b)
			if errors.Is(err, relocation.ErrSequenceExhausted) {
				return 1, nil
			}
			return first, err
		}
	}},
}

var outboxMutants = []storeMutant{
	{"limits are ignored", "read", func(f *faulty, good relocation.Store) {
		f.read = func(ctx context.Context, id string, after uint64, _ int) ([]relocation.Outgoing, error) {
			return good.Read(ctx, id, after, 1<<30)
		}
	}},
	{"a message larger than the limit is never read", "read", func(f *faulty, good relocation.Store) {
		f.read = func(ctx context.Context, id string, after uint64, limit int) ([]relocation.Outgoing, error) {
			messages, err := good.Read(ctx, id, after, limit)
			if len(messages) > 0 && len(messages[0].Data) > limit {
				return nil, err
			}
			return messages, err
		}
	}},
	{"a page at most", "read of many", withRead(func(messages []relocation.Outgoing) []relocation.Outgoing {
		return messages[:min(len(messages), 64)]
	})},
	{"payloads are text", "payloads of any bytes and sizes", withRead(func(messages []relocation.Outgoing) []relocation.Outgoing {
		for i := range messages {
			messages[i].Data = bytes.ToValidUTF8(messages[i].Data, []byte("?"))
		}
		return messages
	})},
	{"slices are shared", "slices belong to whom they should", func(f *faulty, good relocation.Store) {
		var kept []relocation.Outgoing
		f.read = func(ctx context.Context, id string, after uint64, limit int) ([]relocation.Outgoing, error) {
			if kept == nil {
				kept, _ = good.Read(ctx, id, after, limit)
			}
			return kept, nil
		}
	}},
	{"batches are not known again", "RL-45 a batch that comes again", withBatch(func(f *faulty, b *relocation.Batch) {
		b.ID += fmt.Sprint(f.next())
	})},
	{"what was lost stays lost", "a batch that was never appended", func(f *faulty, good relocation.Store) {
		f.append = func(ctx context.Context, id string, b relocation.Batch) (uint64, error) {
			if b.Age > 0 {
				return 0, errSpoiled
			}
			return good.Append(ctx, id, b)
		}
	}},
	{"what is forgotten is appended again", "RL-45 a batch of long ago", withBatch(func(_ *faulty, b *relocation.Batch) { b.Age = 0 })},
	{"an empty batch is none", "an empty batch", func(f *faulty, good relocation.Store) {
		f.append = func(ctx context.Context, id string, b relocation.Batch) (uint64, error) {
			if len(b.Messages) == 0 {
				return 0, nil
			}
			return good.Append(ctx, id, b)
		}
	}},
	{"batches are torn", "RL-46 many append while the session moves", func(f *faulty, good relocation.Store) {
		f.append = func(ctx context.Context, id string, b relocation.Batch) (uint64, error) {
			first, err := good.Append(ctx, id, relocation.Batch{ID: b.ID, Messages: b.Messages[:1]})
			time.Sleep(time.Millisecond) // and let others in
			_, _ = good.Append(ctx, id, relocation.Batch{ID: b.ID + "'", Messages: b.Messages[1:]})
			return first, err
		}
	}},
	{"names that look alike are one", "names of any bytes are apart", func(f *faulty, good relocation.Store) {
		f.create = func(ctx context.Context, id string, terms relocation.Terms, c relocation.Claim) (relocation.Snapshot, error) {
			return good.Create(ctx, strings.Trim(id, "{}"), terms, c)
		}
	}},
	{"names are in errors", "names are in no error", func(f *faulty, good relocation.Store) {
		f.attach = func(ctx context.Context, id string, c relocation.Claim) (relocation.Snapshot, error) {
			s, err := good.Attach(ctx, id, c)
			if err != nil {
				err = fmt.Errorf("session %q: %w", id, err)
			}
			return s, err
		}
	}},
	{"contexts are ignored", "an ended context changes nothing", func(f *faulty, good relocation.Store) {
		f.append = func(ctx context.Context, id string, b relocation.Batch) (uint64, error) {
			return good.Append(context.WithoutCancel(ctx), id, b)
		}
	}},
}
