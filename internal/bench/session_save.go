package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/session"
)

func saveSession(ctx context.Context, r *rig) (*side, error) {
	store, doc := session.NewRedisStore(r.client, nil), &document{}
	rec, err := store.Create(ctx, sessionID, doc.next(), lifetimes)
	if err != nil {
		return nil, err
	}
	version, stale := rec.Version, rec.Version
	return &side{
		op: func(ctx context.Context) error {
			rec, err := store.Save(ctx, sessionID, doc.next(), version)
			if err != nil {
				return err
			}
			if rec.Version == version {
				return errors.New("the version is as before")
			}
			stale, version = version, rec.Version
			return nil
		},
		verify: func(ctx context.Context) error {
			if stale != version { // something was saved
				_, err := store.Save(ctx, sessionID, nil, stale)
				if err := refused("save of a stale version", err, session.ErrConflict); err != nil {
					return err
				}
			}
			rec, err := store.Load(ctx, sessionID)
			if err != nil {
				return err
			}
			return doc.check(rec.Data)
		},
	}, nil
}

// casScript is the least that a save must do: see that the version is the
// expected one, write data and version, begin the time to live again.
var casScript = redis.NewScript(`
if redis.call('HGET', KEYS[1], 'v') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'v', ARGV[2], 'd', ARGV[3])
return redis.call('PEXPIRE', KEYS[1], ARGV[4])`)

// A peerHash is a hash of version and data, changed by compare-and-set.
type peerHash struct {
	client *redis.Client
	n      uint64 // the version
}

var errPeerConflict = errors.New("the peer's version is not the expected one")

// create makes the hash, of version 0.
func (p *peerHash) create(ctx context.Context, data []byte) error {
	if err := p.client.HSet(ctx, peerKey, "v", "0", "d", data).Err(); err != nil {
		return err
	}
	return p.client.PExpire(ctx, peerKey, lifetimes.Idle).Err()
}

// versions returns the present version and the next.
func (p *peerHash) versions() (old, next string) {
	return strconv.FormatUint(p.n, 10), strconv.FormatUint(p.n+1, 10)
}

func (p *peerHash) script(ctx context.Context, data []byte) error {
	old, next := p.versions()
	n, err := casScript.Run(ctx, p.client, []string{peerKey}, old, next, data, lifetimes.Idle.Milliseconds()).Int()
	if err == nil && n != 1 {
		err = errPeerConflict
	}
	if err == nil {
		p.n++
	}
	return err
}

func (p *peerHash) watch(ctx context.Context, data []byte) error {
	old, next := p.versions()
	err := p.client.Watch(ctx, func(tx *redis.Tx) error {
		if v, err := tx.HGet(ctx, peerKey, "v").Result(); err != nil {
			return err
		} else if v != old {
			return errPeerConflict
		}
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.HSet(ctx, peerKey, "v", next, "d", data)
			pipe.PExpire(ctx, peerKey, lifetimes.Idle)
			return nil
		})
		return err
	}, peerKey)
	if err == nil {
		p.n++
	}
	return err
}

func saveByScript(ctx context.Context, r *rig) (*side, error) {
	p := &peerHash{client: r.client}
	return savePeer(ctx, p, p.script)
}

func saveByWatch(ctx context.Context, r *rig) (*side, error) {
	p := &peerHash{client: r.client}
	return savePeer(ctx, p, p.watch)
}

func savePeer(ctx context.Context, p *peerHash, save func(context.Context, []byte) error) (*side, error) {
	doc := &document{}
	if err := p.create(ctx, doc.next()); err != nil {
		return nil, err
	}
	return &side{
		op: func(ctx context.Context) error { return save(ctx, doc.next()) },
		verify: func(ctx context.Context) error {
			stale := &peerHash{client: p.client, n: p.n + 1}
			err := refused("save of a wrong version", stale.script(ctx, nil), errPeerConflict)
			if err != nil {
				return err
			}
			data, err := p.client.HGet(ctx, peerKey, "d").Bytes()
			if err != nil {
				return err
			}
			return doc.check(data)
		},
	}, nil
}
