package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-transparency/transparency/session"
)

// A broken store is a memory store with a method replaced.
type broken struct {
	create  func(ctx context.Context, id string, data []byte, lt session.Lifetimes) (session.Record, error)
	replace func(ctx context.Context, id string, data []byte, lt session.Lifetimes) (session.Record, error)
	load    func(ctx context.Context, id string) (session.Record, error)
	save    func(ctx context.Context, id string, data []byte, v session.Version) (session.Record, error)
	touch   func(ctx context.Context, id string) (session.Record, error)
	delete  func(ctx context.Context, id string) error
}

func (b *broken) Create(ctx context.Context, id string, data []byte, lt session.Lifetimes) (session.Record, error) {
	return b.create(ctx, id, data, lt)
}

func (b *broken) Replace(ctx context.Context, id string, data []byte, lt session.Lifetimes) (session.Record, error) {
	return b.replace(ctx, id, data, lt)
}

func (b *broken) Load(ctx context.Context, id string) (session.Record, error) {
	return b.load(ctx, id)
}

func (b *broken) Save(ctx context.Context, id string, data []byte, v session.Version) (session.Record, error) {
	return b.save(ctx, id, data, v)
}

func (b *broken) Touch(ctx context.Context, id string) (session.Record, error) {
	return b.touch(ctx, id)
}

func (b *broken) Delete(ctx context.Context, id string) error { return b.delete(ctx, id) }

func newBroken(mutate func(b *broken, good *session.MemoryStore)) *broken {
	good := session.NewMemoryStore(nil)
	b := &broken{
		create: good.Create, replace: good.Replace, load: good.Load,
		save: good.Save, touch: good.Touch, delete: good.Delete,
	}
	mutate(b, good)
	return b
}

// The mutants are faults that such stores have had, and the check that has to
// find each.
var mutants = []struct {
	name   string
	finds  string
	mutate func(b *broken, good *session.MemoryStore)
}{
	{"save overwrites whatever the version", "SE-2 save with an old version", func(b *broken, good *session.MemoryStore) {
		b.save = func(ctx context.Context, id string, data []byte, v session.Version) (session.Record, error) {
			if rec, err := good.Load(ctx, id); err == nil && v != "" {
				v = rec.Version
			}
			return good.Save(ctx, id, data, v)
		}
	}},
	{"look and write are two steps", "SE-1 no increment is lost", func(b *broken, good *session.MemoryStore) {
		b.save = func(ctx context.Context, id string, data []byte, v session.Version) (session.Record, error) {
			rec, err := good.Load(ctx, id)
			if err != nil || rec.Version != v || v == "" {
				return good.Save(ctx, id, data, v)
			}
			time.Sleep(time.Millisecond)
			if rec, err = good.Load(ctx, id); err == nil {
				v = rec.Version
			}
			return good.Save(ctx, id, data, v)
		}
	}},
	{"saves leave the idle time", "save then load", func(b *broken, good *session.MemoryStore) {
		b.save = func(ctx context.Context, id string, data []byte, v session.Version) (session.Record, error) {
			was, _ := good.Load(ctx, id)
			rec, err := good.Save(ctx, id, data, v)
			rec.LastSeen = was.LastSeen
			return rec, err
		}
	}},
	{"save brings back what is gone", "SE-3 save and touch after delete", func(b *broken, good *session.MemoryStore) {
		b.save = func(ctx context.Context, id string, data []byte, v session.Version) (session.Record, error) {
			rec, err := good.Save(ctx, id, data, v)
			if errors.Is(err, session.ErrNotFound) {
				return good.Create(ctx, id, data, hour)
			}
			return rec, err
		}
	}},
	{"touch brings back what is gone", "absent", func(b *broken, good *session.MemoryStore) {
		b.touch = func(ctx context.Context, id string) (session.Record, error) {
			rec, err := good.Touch(ctx, id)
			if errors.Is(err, session.ErrNotFound) {
				return good.Create(ctx, id, nil, hour)
			}
			return rec, err
		}
	}},
	{"create overwrites", "create of what exists", func(b *broken, good *session.MemoryStore) {
		b.create = good.Replace
	}},
	{"create looks first", "one of many creators", func(b *broken, good *session.MemoryStore) {
		b.create = func(ctx context.Context, id string, data []byte, lt session.Lifetimes) (session.Record, error) {
			if _, err := good.Load(ctx, id); err == nil {
				return good.Create(ctx, id, data, lt)
			}
			time.Sleep(time.Millisecond)
			return good.Replace(ctx, id, data, lt)
		}
	}},
	{"a delete of nothing fails", "absent", func(b *broken, good *session.MemoryStore) {
		b.delete = func(ctx context.Context, id string) error {
			if _, err := good.Load(ctx, id); err != nil {
				return err
			}
			return good.Delete(ctx, id)
		}
	}},
	{"delete does nothing", "SE-3 save and touch after delete", func(b *broken, _ *session.MemoryStore) {
		b.delete = func(context.Context, string) error { return nil }
	}},
	{"load touches", "use extends, a look does not", func(b *broken, good *session.MemoryStore) {
		b.load = func(ctx context.Context, id string) (session.Record, error) {
			_, _ = good.Touch(ctx, id)
			return good.Load(ctx, id)
		}
	}},
	{"touch does nothing", "use extends, a look does not", func(b *broken, good *session.MemoryStore) {
		b.touch = func(ctx context.Context, id string) (session.Record, error) {
			rec, err := good.Load(ctx, id)
			rec.Data = nil
			return rec, err
		}
	}},
	{"touch writes", "load and touch keep data and version", func(b *broken, good *session.MemoryStore) {
		b.touch = func(ctx context.Context, id string) (session.Record, error) {
			rec, err := good.Load(ctx, id)
			if err != nil {
				return rec, err
			}
			rec, err = good.Save(ctx, id, rec.Data, rec.Version)
			rec.Data = nil
			return rec, err
		}
	}},
	{"saves move the deadline", "SE-8 nothing passes the deadline", func(b *broken, good *session.MemoryStore) {
		b.save = func(ctx context.Context, id string, data []byte, v session.Version) (session.Record, error) {
			rec, err := good.Save(ctx, id, data, v)
			if err != nil {
				return rec, err
			}
			return good.Replace(ctx, id, data, session.Lifetimes{
				Idle: rec.Expires.Sub(rec.LastSeen), Absolute: rec.Deadline.Sub(rec.Created),
			})
		}
	}},
	{"a millisecond too long", "SE-8 gone at exactly Expires", func(b *broken, good *session.MemoryStore) {
		b.create = func(ctx context.Context, id string, data []byte, lt session.Lifetimes) (session.Record, error) {
			lt.Idle += time.Millisecond
			return good.Create(ctx, id, data, lt)
		}
	}},
	{"never ends", "expires by itself", func(b *broken, good *session.MemoryStore) {
		b.create = func(ctx context.Context, id string, data []byte, _ session.Lifetimes) (session.Record, error) {
			return good.Create(ctx, id, data, session.Lifetimes{Idle: 1000 * time.Hour, Absolute: 1000 * time.Hour})
		}
	}},
	{"text for bytes", "SE-15 bytes of any value", func(b *broken, good *session.MemoryStore) {
		b.create = func(ctx context.Context, id string, data []byte, lt session.Lifetimes) (session.Record, error) {
			return good.Create(ctx, id, []byte(strings.ToValidUTF8(string(data), "\uFFFD")), lt)
		}
	}},
	{"ids up to a NUL", "SE-15 bytes of any value", func(b *broken, good *session.MemoryStore) {
		b.create = func(ctx context.Context, id string, data []byte, lt session.Lifetimes) (session.Record, error) {
			id, _, _ = strings.Cut(id, "\x00")
			return good.Create(ctx, id, data, lt)
		}
	}},
	{"data that is too large is cut", "SE-14 data at and over the limit", func(b *broken, good *session.MemoryStore) {
		b.save = func(ctx context.Context, id string, data []byte, v session.Version) (session.Record, error) {
			return good.Save(ctx, id, data[:min(len(data), limit)], v)
		}
	}},
	{"data is shared", "SE-24 data is copied in and out", func(b *broken, good *session.MemoryStore) {
		held := make(map[string][]byte)
		b.load = func(ctx context.Context, id string) (session.Record, error) {
			rec, err := good.Load(ctx, id)
			if held[string(rec.Version)] == nil {
				held[string(rec.Version)] = rec.Data
			}
			rec.Data = held[string(rec.Version)]
			return rec, err
		}
	}},
	{"empty is nil", "empty data", func(b *broken, good *session.MemoryStore) {
		b.load = func(ctx context.Context, id string) (session.Record, error) {
			rec, err := good.Load(ctx, id)
			if len(rec.Data) == 0 {
				rec.Data = nil
			}
			return rec, err
		}
	}},
	{"versions count from one", "every write has another version", func(b *broken, good *session.MemoryStore) {
		b.create = func(ctx context.Context, id string, data []byte, lt session.Lifetimes) (session.Record, error) {
			rec, err := good.Create(ctx, id, data, lt)
			rec.Version = "1"
			return rec, err
		}
		b.save = func(ctx context.Context, id string, data []byte, v session.Version) (session.Record, error) {
			rec, err := good.Load(ctx, id)
			if err != nil {
				return rec, err
			}
			return good.Save(ctx, id, data, rec.Version)
		}
	}},
	{"errors name the id", "SE-28 errors without ids and data", func(b *broken, good *session.MemoryStore) {
		b.load = func(ctx context.Context, id string) (session.Record, error) {
			rec, err := good.Load(ctx, id)
			if err != nil {
				err = fmt.Errorf("%s: %w", id, err)
			}
			return rec, err
		}
	}},
	{"contexts are ignored", "a context that has ended", func(b *broken, good *session.MemoryStore) {
		b.delete = func(ctx context.Context, id string) error {
			return good.Delete(context.WithoutCancel(ctx), id)
		}
	}},
	{"lifetimes get a default", "lifetimes that cannot be", func(b *broken, good *session.MemoryStore) {
		b.create = func(ctx context.Context, id string, data []byte, lt session.Lifetimes) (session.Record, error) {
			if lt.Idle == 0 {
				lt.Idle = lt.Absolute
			}
			return good.Create(ctx, id, data, lt)
		}
	}},
	{"an empty version is any", "a save without a version", func(b *broken, good *session.MemoryStore) {
		b.save = func(ctx context.Context, id string, data []byte, v session.Version) (session.Record, error) {
			if rec, err := good.Load(ctx, id); err == nil && v == "" {
				v = rec.Version
			}
			return good.Save(ctx, id, data, v)
		}
	}},
	{"all ids are looked up", "SE-6 ids that cannot be", func(b *broken, good *session.MemoryStore) {
		b.load = func(ctx context.Context, id string) (session.Record, error) {
			if rec, err := good.Load(ctx, id); err == nil {
				return rec, nil
			}
			return session.Record{}, session.ErrNotFound
		}
	}},
	{"all sessions are one", "one session is not another", func(b *broken, good *session.MemoryStore) {
		b.save = func(ctx context.Context, id string, data []byte, v session.Version) (session.Record, error) {
			_ = good.Delete(ctx, "a")
			return good.Save(ctx, id, data, v)
		}
	}},
	{"replace keeps the lifetimes", "replace", func(b *broken, good *session.MemoryStore) {
		b.replace = func(ctx context.Context, id string, data []byte, lt session.Lifetimes) (session.Record, error) {
			if rec, err := good.Load(ctx, id); err == nil {
				return good.Save(ctx, id, data, rec.Version)
			}
			return good.Replace(ctx, id, data, lt)
		}
	}},
}
