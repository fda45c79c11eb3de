package relocation

import (
	"context"
	"strconv"
	"strings"

	"github.com/go-transparency/transparency/internal/rediskit"
)

// Listen implements [Store] with one subscription for all sessions.
func (r *RedisStore) Listen(ctx context.Context, owner string, hear func(Event)) error {
	if err := r.usable(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return rediskit.Listen(ctx, r.client.Subscribe(ctx, r.channels()+owner), func(payload string, begun bool) {
		if begun {
			hear(Event{Kind: Missed})
			return
		}
		if e, ok := parseEvent(payload); ok {
			hear(e)
		}
	})
}

// parseEvent reads what tell of record.lua sends. Anything else is from other
// hands, and is left alone.
func parseEvent(payload string) (Event, bool) {
	if payload == "" {
		return Event{}, false
	}
	length, rest, ok := strings.Cut(payload[1:], ":")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n < 0 || n > len(rest) {
		return Event{}, false
	}
	e := Event{From: rest[:n], Session: rest[n:]}
	switch payload[0] {
	case 'a':
		e.Kind = Appended
		e.Out, e.Session, ok = cutNumber(e.Session)
	case 'y':
		e.Kind = Yield
		e.Generation, e.Session, ok = cutNumber(e.Session)
	case 'r':
		e.Kind = Released
	default:
		return Event{}, false
	}
	return e, ok
}

// cutNumber reads a number and a space before something.
func cutNumber(text string) (n uint64, rest string, ok bool) {
	number, rest, ok := strings.Cut(text, " ")
	n, err := strconv.ParseUint(number, 10, 64)
	return n, rest, ok && err == nil
}
