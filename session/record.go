package session

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

// A Version names one state of a session's data. It is opaque: compare it, or
// hand it to Save. No two writes give the same version. The zero Version is
// that of no session.
type Version string

// Lifetimes bound a session. Both are needed, at least a millisecond and at
// most 100 years, with Idle no longer than Absolute; fractions of a
// millisecond are dropped.
type Lifetimes struct {
	Idle     time.Duration // how long it lives without being touched or saved
	Absolute time.Duration // how long it lives at most
}

// What lifetimes must keep to. Within these bounds every instant is a whole
// number of milliseconds that a float64 holds exactly, which is what Lua
// counts in.
const (
	minLifetime = time.Millisecond
	maxLifetime = 100 * 365 * 24 * time.Hour
)

func (lt Lifetimes) check() error {
	switch {
	case lt.Idle < minLifetime, lt.Absolute < minLifetime:
		return invalid("lifetimes must be at least %v: idle %v, absolute %v", minLifetime, lt.Idle, lt.Absolute)
	case lt.Absolute > maxLifetime:
		return invalid("the absolute lifetime %v is longer than %v", lt.Absolute, maxLifetime)
	case lt.Idle > lt.Absolute:
		return invalid("the idle lifetime %v is longer than the absolute one %v", lt.Idle, lt.Absolute)
	}
	return nil
}

// A Record is a session as the store had it at AsOf. All its times are of the
// store's clock and whole milliseconds, so that instances whose clocks differ
// agree: compare them with AsOf, not with [time.Now].
//
// A Record prints, logs and marshals as text without its data, which is the
// user's.
type Record struct {
	// Data is what was saved, byte by byte. It belongs to the caller. It is
	// nil in the record of a Touch, which does not read it.
	Data []byte
	// Version is the version of Data.
	Version Version

	Created  time.Time // when it was created
	LastSeen time.Time // when it was last created, saved or touched
	Expires  time.Time // from this instant on it is gone, unless saved or touched before
	Deadline time.Time // from this instant on it is gone in any case; Expires is never later
	AsOf     time.Time // when the store answered
}

// newRecord computes the instants of a record from what is stored.
func newRecord(data []byte, version Version, created, seen, idle, deadline, now int64) Record {
	return Record{
		Data:     data,
		Version:  version,
		Created:  time.UnixMilli(created),
		LastSeen: time.UnixMilli(seen),
		Expires:  time.UnixMilli(min(seen+idle, deadline)),
		Deadline: time.UnixMilli(deadline),
		AsOf:     time.UnixMilli(now),
	}
}

// String describes the record without its data.
func (r Record) String() string {
	return fmt.Sprintf("session.Record{%d bytes, version %s, expires %s}",
		len(r.Data), r.Version, r.Expires.Format(time.RFC3339))
}

// Format writes [Record.String] for every verb.
func (r Record) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// LogValue is the record without its data.
func (r Record) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("bytes", len(r.Data)),
		slog.String("version", string(r.Version)),
		slog.Time("expires", r.Expires),
	)
}

// MarshalText is the record without its data, in JSON and XML too.
func (r Record) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
