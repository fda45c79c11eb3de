package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-transparency/transparency/session"
)

// A visit is about 1 KiB of JSON.
type visit struct {
	Count int    `json:"count"`
	Pad   string `json:"pad"`
}

func newVisit() visit {
	return visit{Pad: string(bytes.Repeat([]byte("x"), sessionSize-len(`{"count":123456,"pad":""}`)))}
}

func (v visit) check(count int) error {
	if v.Count != count || v.Pad != newVisit().Pad {
		return fmt.Errorf("count %d after %d updates", v.Count, count)
	}
	return nil
}

// updateSession is what a request does that changes its session: Get and
// Update.
func updateSession(ctx context.Context, r *rig) (*side, error) {
	m := session.NewManager[visit](session.NewRedisStore(r.client, nil), &session.ManagerOptions{Lifetimes: lifetimes})
	s, err := m.New(ctx, newVisit())
	if err != nil {
		return nil, err
	}
	token, count := s.Token().Reveal(), 0
	return &side{
		op: func(ctx context.Context) error {
			s, err := m.Get(ctx, token)
			if err != nil {
				return err
			}
			if s, err = m.Update(ctx, s, func(v *visit) error { v.Count++; return nil }); err != nil {
				return err
			}
			if count++; s.Value.Count != count {
				return s.Value.check(count)
			}
			return nil
		},
		verify: func(ctx context.Context) error {
			s, err := m.Peek(ctx, token)
			if err != nil {
				return err
			}
			return s.Value.check(count)
		},
	}, nil
}

func updateByScript(ctx context.Context, r *rig) (*side, error) {
	p, count := &peerHash{client: r.client}, 0
	first, err := json.Marshal(newVisit())
	if err != nil {
		return nil, err
	}
	if err := p.create(ctx, first); err != nil {
		return nil, err
	}
	load := func(ctx context.Context) (v visit, err error) {
		fields, err := r.client.HMGet(ctx, peerKey, "v", "d").Result()
		if err != nil {
			return v, err
		}
		data, _ := fields[1].(string)
		return v, json.Unmarshal([]byte(data), &v)
	}
	return &side{
		op: func(ctx context.Context) error {
			v, err := load(ctx)
			if err != nil {
				return err
			}
			count++
			if v.Count++; v.Count != count {
				return v.check(count)
			}
			data, err := json.Marshal(v)
			if err != nil {
				return err
			}
			return p.script(ctx, data)
		},
		verify: func(ctx context.Context) error {
			v, err := load(ctx)
			if err != nil {
				return err
			}
			return v.check(count)
		},
	}, nil
}
