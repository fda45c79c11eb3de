package failure

import (
	"context"
	_ "embed"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/rediskit"
)

var (
	//go:embed exchange.lua
	exchangeSource string
	exchangeScript = rediskit.NewScript(exchangeSource)
)

// RedisClient is what the Redis form needs of a client. *redis.Client (a
// single server or Sentinel), *redis.ClusterClient and *redis.Ring have it.
type RedisClient interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// maxCommands is how many commands of a driver are under way at most. One
// breaker sends one at a time.
const maxCommands = 8

// RedisDriver keeps breakers in Redis. The package page tells its keys.
type RedisDriver struct {
	client  RedisClient
	err     error // why no operation can work
	prefix  string
	gate    *rediskit.Gate
	timeout time.Duration
}

// NewRedisDriver returns a driver over client, which stays the caller's. It
// does no I/O. Of the options it uses Prefix, Timeout and Logger.
func NewRedisDriver(client RedisClient, opts *SharedOptions) *RedisDriver {
	o, _ := opts.withDefaults() // the rest is the breaker's
	err := rediskit.CheckClient(client)
	if err == nil && o.Timeout < 0 {
		err = invalid("the timeout is %v, and an exchange needs one", o.Timeout)
	}
	rediskit.WarnOptions(o.Logger, client)
	return &RedisDriver{
		client: client, err: err, prefix: o.Prefix,
		gate:    rediskit.NewGateOf(maxCommands, o.Timeout).For(client),
		timeout: o.Timeout,
	}
}

// unfit says why no operation can work.
func (d *RedisDriver) unfit() error {
	switch {
	case d == nil:
		return errNilDriver
	case d.err != nil:
		return d.err
	case d.gate == nil:
		return invalid("the driver was not made by NewRedisDriver")
	}
	return nil
}

// String leaves the client out, for it can hold a password.
func (d *RedisDriver) String() string {
	if d == nil {
		return "failure.RedisDriver(nil)"
	}
	return "failure.RedisDriver(" + quote(d.prefix) + ")"
}

// GoString is String.
func (d *RedisDriver) GoString() string { return d.String() }

func quote(s string) string { return strconv.Quote(s) }

func (d *RedisDriver) stateKey(name string) string { return rediskit.Key(d.prefix, name, "") }
func (d *RedisDriver) liveKey(name string) string  { return rediskit.Key(d.prefix, name, ":live") }
func (d *RedisDriver) votesKey(name string) string { return rediskit.Key(d.prefix, name, ":votes") }
func (d *RedisDriver) channel(name string) string  { return rediskit.Key(d.prefix, name, ":wake") }

// Exchange implements [Driver].
func (d *RedisDriver) Exchange(ctx context.Context, name string, r Report) (View, error) {
	if err := d.unfit(); err != nil {
		return View{}, failed("exchange", name, err)
	}
	view, err := rediskit.Do(ctx, d.gate, rediskit.Writes, func(ctx context.Context) (View, error) {
		return parseView(exchangeScript.Run(ctx, d.client,
			[]string{d.stateKey(name), d.liveKey(name), d.votesKey(name)},
			r.Instance, ms(r.TTL), flag(r.Vote), strconv.FormatUint(r.Gen, 10), int(r.Verdict), ms(r.Probe),
			r.Quorum, strconv.FormatFloat(r.QuorumRatio, 'f', -1, 64), ms(r.OpenFor), ms(r.MaxOpenFor),
			ms(keep), d.channel(name)))
	}, nil)
	if err != nil {
		return View{}, failed("exchange", name, err)
	}
	return view, nil
}

// ms rounds up: what is to happen is to happen for some time.
func ms(d time.Duration) string {
	return strconv.FormatInt((d + time.Millisecond - 1).Milliseconds(), 10)
}

func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// parseView reads a reply of exchange.lua.
func parseView(reply any, err error) (View, error) {
	if err != nil {
		return View{}, err
	}
	list, _ := reply.([]any)
	if len(list) != 7 {
		return View{}, invalid("what is stored was written by another version")
	}
	gen, ok := list[0].(string)
	n, err := strconv.ParseUint(gen, 10, 64)
	if !ok || err != nil {
		return View{}, invalid("the generation in the store is not a number")
	}
	var ints [6]int64
	for i := range ints {
		if ints[i], ok = list[i+1].(int64); !ok || ints[i] < 0 || ints[i] > 1<<40 {
			return View{}, invalid("the reply has %T for a number", list[i+1])
		}
	}
	return View{
		Gen: n, Open: ints[0] == 1,
		Remaining: time.Duration(ints[1]) * time.Millisecond,
		Probing:   time.Duration(ints[2]) * time.Millisecond,
		Granted:   ints[3] == 1,
		Live:      int(ints[4]), Votes: int(ints[5]),
	}, nil
}
