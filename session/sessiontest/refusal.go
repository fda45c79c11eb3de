package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/session"
)

// What cannot be is refused, changes nothing, and gives nothing away.
var refusalChecks = []check{
	{name: "SE-6 ids that cannot be", fn: func(r *run) {
		for _, bad := range []string{"", strings.Repeat("i", 257), strings.Repeat("i", 1<<20)} {
			r.each(r.Context(), bad, func(op string, err error) {
				r.wantErr(fmt.Sprintf("%s of an id of %d bytes", op, len(bad)), err, transparency.ErrInvalid)
			})
		}
	}},
	{name: "a save without a version", fn: func(r *run) {
		made := r.create(id, "data", hour)
		_, err := r.store.Save(r.Context(), id, []byte("more"), "")
		r.wantErr("Save", err, transparency.ErrInvalid)
		r.holds(id, "data", made.Version)
	}},
	{name: "lifetimes that cannot be", fn: func(r *run) {
		const century = 100 * 365 * 24 * time.Hour
		for _, lt := range []session.Lifetimes{
			{},
			{Idle: time.Hour},
			{Absolute: time.Hour},
			{Idle: -time.Hour, Absolute: time.Hour},
			{Idle: time.Hour, Absolute: -time.Hour},
			{Idle: 2 * time.Hour, Absolute: time.Hour},
			{Idle: time.Microsecond, Absolute: time.Hour},
			{Idle: time.Hour, Absolute: century + time.Millisecond},
		} {
			_, err := r.store.Create(r.Context(), id, nil, lt)
			r.wantErr(fmt.Sprintf("Create(%+v)", lt), err, transparency.ErrInvalid)
			_, err = r.store.Load(r.Context(), id)
			r.wantErr("Load", err, session.ErrNotFound)
		}
		long := session.Lifetimes{Idle: century, Absolute: century}
		rec := r.create(id, "data", long)
		if got := rec.Deadline.Sub(rec.Created); got != century {
			r.Errorf("the deadline is %v after the creation, want %v", got, century)
		}
		if rec = r.touch(id); !rec.Expires.Equal(rec.Deadline) {
			r.Errorf("Touch: expires %v, want the deadline %v", rec.Expires, rec.Deadline)
		}
		odd := session.Lifetimes{Idle: 3600_001_999 * time.Microsecond, Absolute: 7200_002_001 * time.Microsecond}
		rec = r.create("odd", "data", odd)
		if got := rec.Expires.Sub(rec.LastSeen); got != 3600_001*time.Millisecond {
			r.Errorf("idle for %v, want it cut to the millisecond", got)
		}
		if got := rec.Deadline.Sub(rec.Created); got != 7200_002*time.Millisecond {
			r.Errorf("a deadline after %v, want it cut to the millisecond", got)
		}
	}},
	{name: "a context that has ended", fn: func(r *run) {
		made := r.create(id, "data", hour)
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		r.each(ctx, id, func(op string, err error) {
			r.wantErr(op, err, context.Canceled)
			if errors.Is(err, transparency.ErrUncertain) {
				r.Errorf("%s error = %v, want one that is not uncertain", op, err)
			}
		})
		_, err := r.store.Save(ctx, id, []byte("more"), made.Version)
		r.wantErr("Save", err, context.Canceled)
		_, err = r.store.Create(ctx, "other", nil, hour)
		r.wantErr("Create", err, context.Canceled)
		r.holds(id, "data", made.Version)
		_, err = r.store.Load(r.Context(), "other")
		r.wantErr("Load", err, session.ErrNotFound)
	}},
	{name: "SE-28 errors without ids and data", fn: func(r *run) {
		const secret, data = "hush-hush", "private"
		see := func(op string, err error) {
			if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, secret) || strings.Contains(text, data) {
				r.Errorf("%s error = %s, which gives away the id or data", op, text)
			}
		}
		r.each(r.Context(), secret+strings.Repeat("h", 256), see)
		_, err := r.store.Load(r.Context(), secret)
		see("Load", err)
		rec := r.create(secret, data, hour)
		_, err = r.store.Create(r.Context(), secret, []byte(data), hour)
		see("Create", err)
		_, err = r.store.Save(r.Context(), secret, []byte(data), "another version")
		see("Save", err)
		_, err = r.store.Save(r.Context(), secret, []byte(data+strings.Repeat(" ", limit)), rec.Version)
		see("Save", err)
	}},
}
