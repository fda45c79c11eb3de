package sessiontest

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"github.com/go-transparency/transparency/session"
)

func (r *run) wantErr(op string, err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("%s error = %v, want one wrapping %q", op, err, want)
	}
}

const limit = 64 << 10

// What goes in comes out, and belongs to whoever holds it.
var dataChecks = []check{
	{name: "create then load", fn: func(r *run) {
		made := r.create(id, "data", hour)
		if string(made.Data) != "data" || made.Version == "" {
			r.Errorf("Create returned data %q and version %q, want %q and some version", made.Data, made.Version, "data")
		}
		if !made.Created.Equal(made.LastSeen) || !made.Created.Equal(made.AsOf) {
			r.Errorf("Create: created %v, last seen %v, as of %v, want one instant", made.Created, made.LastSeen, made.AsOf)
		}
		if got := made.Expires.Sub(made.LastSeen); got != hour.Idle {
			r.Errorf("Create: expires %v after it was last seen, want %v", got, hour.Idle)
		}
		if got := made.Deadline.Sub(made.Created); got != hour.Absolute {
			r.Errorf("Create: the deadline is %v after the creation, want %v", got, hour.Absolute)
		}
		r.holds(id, "data", made.Version)
		got := r.load(id)
		if !got.Created.Equal(made.Created) || !got.LastSeen.Equal(made.LastSeen) ||
			!got.Expires.Equal(made.Expires) || !got.Deadline.Equal(made.Deadline) {
			r.Errorf("Load after Create changed the times: %v %v %v %v, want %v %v %v %v",
				got.Created, got.LastSeen, got.Expires, got.Deadline,
				made.Created, made.LastSeen, made.Expires, made.Deadline)
		}
		if got.AsOf.Before(made.AsOf) || !got.AsOf.Before(got.Expires) {
			r.Errorf("Load: as of %v, want from %v and before %v", got.AsOf, made.AsOf, got.Expires)
		}
	}},
	{name: "save then load", fn: func(r *run) {
		made := r.create(id, "one", hour)
		pause()
		saved := r.save(id, "two", made.Version)
		if string(saved.Data) != "two" || saved.Version == made.Version || saved.Version == "" {
			r.Errorf("Save returned data %q and version %q, want %q and a version other than %q",
				saved.Data, saved.Version, "two", made.Version)
		}
		if !saved.Created.Equal(made.Created) || !saved.Deadline.Equal(made.Deadline) {
			r.Errorf("Save moved creation or deadline: %v %v, want %v %v", saved.Created, saved.Deadline, made.Created, made.Deadline)
		}
		if !saved.LastSeen.Equal(saved.AsOf) {
			r.Errorf("Save: last seen %v, want the time of the save, %v", saved.LastSeen, saved.AsOf)
		}
		r.holds(id, "two", saved.Version)
	}},
	{name: "empty data", fn: func(r *run) {
		made := r.create(id, "", hour)
		r.holds(id, "", made.Version)
		if r.load(id).Data == nil {
			r.Errorf("Load of empty data: Data is nil, want empty")
		}
		saved, err := r.store.Save(r.Context(), id, nil, made.Version)
		if err != nil {
			r.Fatalf("Save(nil) error = %v", err)
		}
		r.holds(id, "", saved.Version)
	}},
	{name: "SE-15 bytes of any value", fn: func(r *run) {
		var all []byte
		for i := range 256 {
			all = append(all, byte(i))
		}
		ids := []string{
			"\x00", "a\x00b", "\xff\xfe", string(all), "a{b}c", "{}", "}{", "%", "%7B", "a b\r\n", "../x", "*", "ünï",
			strings.Repeat("i", 256),
		}
		versions := make(map[string]session.Version)
		for _, id := range ids {
			versions[id] = r.create(id, id+string(all), hour).Version
		}
		for _, id := range ids {
			r.holds(id, id+string(all), versions[id])
			versions[id] = r.save(id, string(all)+id, versions[id]).Version
		}
		for _, id := range ids {
			r.holds(id, string(all)+id, versions[id])
			r.delete(id)
			r.gone(id, versions[id])
		}
	}},
	{name: "numbers beyond a double", fn: func(r *run) {
		for _, data := range []string{"1700000000000001", "9007199254740993", "1e400", "-0", "0x10"} {
			made := r.create(data, data, hour)
			r.holds(data, data, made.Version)
			saved := r.save(data, data+data, made.Version)
			r.holds(data, data+data, saved.Version)
		}
	}},
	{name: "SE-24 data is copied in and out", fn: func(r *run) {
		data := []byte("one")
		made, err := r.store.Create(r.Context(), id, data, hour)
		if err != nil {
			r.Fatalf("Create error = %v", err)
		}
		copy(data, "ZZZ")
		copy(made.Data, "YYY")
		r.holds(id, "one", made.Version)
		copy(r.load(id).Data, "ZZZ")
		r.holds(id, "one", made.Version)
		data = []byte("two")
		saved, err := r.store.Save(r.Context(), id, data, made.Version)
		if err != nil {
			r.Fatalf("Save error = %v", err)
		}
		copy(data, "ZZZ")
		copy(saved.Data, "YYY")
		r.holds(id, "two", saved.Version)
	}},
	{name: "SE-14 data at and over the limit", fn: func(r *run) {
		ctx := r.Context()
		full, over := bytes.Repeat([]byte("x"), limit), bytes.Repeat([]byte("x"), limit+1)
		_, err := r.store.Create(ctx, id, over, hour)
		r.wantErr("Create(too much)", err, session.ErrTooLarge)
		_, err = r.store.Load(ctx, id)
		r.wantErr("Load after Create(too much)", err, session.ErrNotFound)
		made := r.create(id, string(full), hour)
		r.holds(id, string(full), made.Version)
		_, err = r.store.Save(ctx, id, over, made.Version)
		r.wantErr("Save(too much)", err, session.ErrTooLarge)
		for _, number := range []string{"65537", "65536"} {
			if err != nil && !strings.Contains(err.Error(), number) {
				r.Errorf("Save(too much) error = %q, want it to name %s", err, number)
			}
		}
		r.holds(id, string(full), made.Version)
	}},
	{name: "replace", fn: func(r *run) {
		store, ok := r.store.(session.Replacer)
		if !ok {
			return
		}
		first, err := store.Replace(r.Context(), id, []byte("one"), hour)
		if err != nil {
			r.Fatalf("Replace of nothing: error = %v", err)
		}
		r.holds(id, "one", first.Version)
		short := session.Lifetimes{Idle: time.Minute, Absolute: time.Minute}
		second, err := store.Replace(r.Context(), id, []byte("two"), short)
		if err != nil {
			r.Fatalf("Replace error = %v", err)
		}
		r.holds(id, "two", second.Version)
		if got := r.load(id); got.Deadline.Sub(got.Created) != time.Minute || got.Expires.Sub(got.LastSeen) != time.Minute {
			r.Errorf("Replace: idle until %v, deadline %v of creation %v, want a minute for both", got.Expires, got.Deadline, got.Created)
		}
		_, err = r.store.Save(r.Context(), id, []byte("three"), first.Version)
		r.wantErr("Save with the version before Replace", err, session.ErrConflict)
	}},
}
