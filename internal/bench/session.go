package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency/session"
)

// sessionComparisons set a session of 1 KiB against the commands that do the
// least of what it does. No ratio has a target; the round trips are what the
// store promises.
var sessionComparisons = []comparison{
	{name: "session/load", versus: "HMGET of the same hash", redis: true,
		ours: loadSession, peer: loadHash, target: target{trips: 1}},
	{name: "session/load-get", versus: "GET of the same bytes", redis: true,
		ours: loadSession, peer: loadString, target: target{trips: 1}},
	{name: "session/save", versus: "a compare-and-set script", redis: true,
		ours: saveSession, peer: saveByScript, target: target{trips: 1}},
	{name: "session/save-watch", versus: "WATCH, HGET, MULTI, EXEC", redis: true,
		ours: saveSession, peer: saveByWatch, target: target{trips: 1}},
	{name: "session/update", versus: "HMGET, JSON, a compare-and-set script", redis: true,
		ours: updateSession, peer: updateByScript, target: target{trips: 2}},
}

const (
	sessionID   = "bench"
	sessionSize = 1024
)

var (
	lifetimes = session.Lifetimes{Idle: time.Hour, Absolute: 8 * time.Hour}
	peerKey   = "peer:" + sessionID
)

// A document is data that tells which write it is of, so that a read shows
// whether that write was done.
type document struct {
	n    uint64
	data [sessionSize]byte
}

func (d *document) next() []byte {
	d.n++
	binary.BigEndian.PutUint64(d.data[:], d.n)
	return d.data[:]
}

func (d *document) check(got []byte) error {
	if !bytes.Equal(got, d.data[:]) {
		return fmt.Errorf("read %d bytes that are not those of write %d", len(got), d.n)
	}
	return nil
}

func sized(n int) error {
	if n != sessionSize {
		return fmt.Errorf("read %d bytes, not %d", n, sessionSize)
	}
	return nil
}

func loadSession(ctx context.Context, r *rig) (*side, error) {
	store, doc := session.NewRedisStore(r.client, nil), &document{}
	if _, err := store.Create(ctx, sessionID, doc.next(), lifetimes); err != nil {
		return nil, err
	}
	return &side{
		op: func(ctx context.Context) error {
			rec, err := store.Load(ctx, sessionID)
			if err != nil {
				return err
			}
			return sized(len(rec.Data))
		},
		verify: func(ctx context.Context) error {
			rec, err := store.Load(ctx, sessionID)
			if err != nil {
				return err
			}
			return doc.check(rec.Data)
		},
	}, nil
}

// loadHash reads what a session store wrote, field by field as the store does.
func loadHash(ctx context.Context, r *rig) (*side, error) {
	store, doc := session.NewRedisStore(r.client, &session.RedisOptions{Prefix: "peer:"}), &document{}
	if _, err := store.Create(ctx, sessionID, doc.next(), lifetimes); err != nil {
		return nil, err
	}
	load := func(ctx context.Context) (string, error) {
		fields, err := r.client.HMGet(ctx, peerKey, "v", "d", "c", "s", "i", "a").Result()
		if err != nil {
			return "", err
		}
		data, ok := fields[1].(string)
		if !ok {
			return "", errors.New("the hash has no data")
		}
		return data, nil
	}
	return loadSide(load, doc), nil
}

func loadString(ctx context.Context, r *rig) (*side, error) {
	doc := &document{}
	if err := r.client.Set(ctx, peerKey, doc.next(), lifetimes.Idle).Err(); err != nil {
		return nil, err
	}
	load := func(ctx context.Context) (string, error) { return r.client.Get(ctx, peerKey).Result() }
	return loadSide(load, doc), nil
}

func loadSide(load func(context.Context) (string, error), doc *document) *side {
	return &side{
		op: func(ctx context.Context) error {
			data, err := load(ctx)
			if err != nil {
				return err
			}
			return sized(len(data))
		},
		verify: func(ctx context.Context) error {
			data, err := load(ctx)
			if err != nil {
				return err
			}
			return doc.check([]byte(data))
		},
	}
}
