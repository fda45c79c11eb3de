package relocation

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-transparency/transparency"
)

// maxDuration is what longer times are taken for, as Redis has its bounds too.
const maxDuration = 100 * 365 * 24 * time.Hour

// ms is a duration as the scripts take it. Less than a millisecond is one.
func ms(d time.Duration) string {
	d = min(max(d, 0), maxDuration) + time.Millisecond - 1
	return strconv.FormatInt(d.Milliseconds(), 10)
}

func seqText(n uint64) string { return strconv.FormatUint(n, 10) }

// appendPayloads appends copies: a command may outlive its call, and the
// slices are the caller's.
func appendPayloads(args []any, messages [][]byte) []any {
	for _, p := range messages {
		args = append(args, string(p))
	}
	return args
}

// A redisReply is what a script answered after "ok", which is its first
// element.
type redisReply []any

// redisRefusals maps the answers of the scripts.
var redisRefusals = map[string]error{
	"unknown":    ErrUnknown,
	"exists":     ErrExists,
	"fenced":     ErrFenced,
	"taken":      ErrSessionTaken,
	"superseded": ErrSuperseded,
	"regressed":  ErrStateRegressed,
	"full":       ErrBufferFull,
	"exhausted":  ErrSequenceExhausted,
	"uncertain":  errBatchForgotten,
	"corrupt":    invalid("the key in the store holds no session"),
}

var errBatchForgotten = fmt.Errorf("%w: the batch may have been appended", transparency.ErrUncertain)

// parseRedisReply returns the reply if it is "ok", and else the error that it
// stands for.
func parseRedisReply(reply any) (redisReply, error) {
	r, ok := reply.([]any)
	if !ok || len(r) == 0 {
		return nil, invalid("a reply of type %T", reply)
	}
	what, _ := r[0].(string)
	switch what {
	case "ok":
		return r, nil
	case "expired":
		in, err := redisReply(r).seq(1)
		if err != nil {
			return nil, err
		}
		return nil, &ExpiredError{In: in}
	case "owned":
		if len(r) != 3 {
			return nil, invalid("a reply of %d fields", len(r))
		}
		owner, _ := r[1].(string)
		left, _ := r[2].(int64)
		return nil, &OwnedError{Owner: owner, Remaining: time.Duration(min(max(left, 0), maxDuration.Milliseconds())) * time.Millisecond}
	}
	if err := redisRefusals[what]; err != nil {
		return nil, err
	}
	return nil, invalid("a reply of an unknown kind")
}

// seq returns a number of the reply.
func (r redisReply) seq(i int) (uint64, error) {
	if i >= len(r) {
		return 0, invalid("a reply of %d fields", len(r))
	}
	text, ok := r[i].(string)
	if !ok {
		return 0, invalid("reply field %d of type %T", i, r[i])
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, invalid("reply field %d is no number", i)
	}
	return n, nil
}

func snapshotOf(r redisReply, err error) (Snapshot, error) {
	if err != nil {
		return Snapshot{}, err
	}
	var n [4]uint64
	for i := range n {
		if n[i], err = r.seq(i + 1); err != nil {
			return Snapshot{}, err
		}
	}
	if len(r) < 7 {
		return Snapshot{}, invalid("a reply of %d fields", len(r))
	}
	mark, _ := r[5].(string)
	return Snapshot{Generation: n[0], In: n[1], Out: n[2], Acked: n[3], Released: r[6] == "1", Mark: mark}, nil
}
