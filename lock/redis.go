package lock

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/rediskit"
)

var (
	//go:embed fence.lua
	fenceSource string
	//go:embed line.lua
	lineSource string
	//go:embed handover.lua
	handoverSource string

	//go:embed mint.lua
	mintSource string
	//go:embed renew.lua
	renewSource string
	//go:embed release.lua
	releaseSource string
	//go:embed break.lua
	breakSource string

	mintScript    = rediskit.NewScript(fenceSource + lineSource + mintSource)
	renewScript   = rediskit.NewScript(renewSource)
	releaseScript = rediskit.NewScript(lineSource + handoverSource + releaseSource)
	breakScript   = rediskit.NewScript(fenceSource + lineSource + handoverSource + breakSource)
)

// RedisClient is what the Redis form needs of a client. *redis.Client (a
// single server or Sentinel), *redis.ClusterClient and *redis.Ring have it.
type RedisClient interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipelined(ctx context.Context, fn func(redis.Pipeliner) error) ([]redis.Cmder, error)
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

const (
	fenceTTL = time.Hour        // any TTL is right; see mint.lua
	lineTTL  = 10 * time.Second // a waiter asks once in maxPoll
	maxLine  = 1000
)

// Arguments that are the same each time, so that they are made once.
var (
	graceArg    any = ms(grace)
	fenceTTLArg any = ms(fenceTTL)
	lineTTLArg  any = ms(lineTTL)
	noLineArg   any = "0"
	maxLineArg  any = strconv.Itoa(maxLine)
)

// lineArg is the TTL of the line for who stands in it, if he does.
func lineArg(queue bool) any {
	if queue {
		return lineTTLArg
	}
	return noLineArg
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// RedisDriver keeps locks in Redis. The package page tells its keys.
type RedisDriver struct {
	client   RedisClient
	err      error // why no operation can work
	prefix   string
	channels any // what stands before an owner's name in the name of its channel
	counted  any // "1" if PUBLISH counts all who hear

	acquiring *rediskit.Gate // and releasing
	renewing  *rediskit.Gate // by itself, so that no crowd delays a renewal
}

// NewRedisDriver returns a driver over client, which stays the caller's. It
// does no I/O. Of the options it uses Prefix, Timeout and Logger.
func NewRedisDriver(client RedisClient, opts *Options) *RedisDriver {
	o, err := opts.withDefaults()
	if err == nil {
		err = rediskit.CheckClient(client)
	}
	d := &RedisDriver{
		client: client, err: err, prefix: o.Prefix, channels: o.Prefix + wakeChannels, counted: "0",
		acquiring: rediskit.NewGateOf(maxCommands, o.Timeout).For(client),
		renewing:  rediskit.NewGateOf(maxFlights, o.Timeout).For(client),
	}
	if _, single := client.(*redis.Client); single {
		d.counted = "1"
	}
	rediskit.WarnOptions(o.Logger, client)
	return d
}

// maxCommands leaves room below rediskit.Limit for the Locker's own work.
const maxCommands = 48

// unusable returns why no operation can work.
func (d *RedisDriver) unusable() error {
	if d == nil || d.client == nil && d.err == nil {
		return invalid("the RedisDriver is not from NewRedisDriver")
	}
	return d.err
}

// wakeChannels stands between the prefix and an owner's name.
const wakeChannels = "wake:"

// A lock's key, with what its companions have after it.
const (
	fenceSuffix = ":fence"
	lineSuffix  = ":line"
)

func (d *RedisDriver) lockKey(key string) string { return rediskit.Key(d.prefix, key, "") }

// companions returns the keys of a lock, its fence and its line.
func (d *RedisDriver) companions(key string) []string {
	fence := rediskit.Key(d.prefix, key, fenceSuffix)
	lock := fence[:len(fence)-len(fenceSuffix)]
	return []string{lock, fence, lock + lineSuffix}
}

// Acquire implements [Driver].
func (d *RedisDriver) Acquire(ctx context.Context, c Claim, queue bool) (Grant, error) {
	if err := d.unusable(); err != nil {
		return Grant{}, err
	}
	o := &obtaining{d: d, claim: c, queue: queue}
	return rediskit.Do(ctx, d.acquiring, rediskit.Writes, o.try, o.late)
}

// pipeline sends the commands in one round trip. Each holds its error. A
// pipeline whose connection was refused by the server (a wrong password, for
// one) leaves its commands without reply and without error, as if each had
// been answered with nothing; here they have the pipeline's.
func (d *RedisDriver) pipeline(ctx context.Context, cmds ...*rediskit.Once) {
	_, err := d.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, cmd := range cmds {
			_ = p.Process(ctx, cmd) // queued only
		}
		return nil
	})
	if err == nil {
		err = errNoReply
	}
	for _, cmd := range cmds {
		if cmd.Err() == nil && cmd.Val() == nil {
			cmd.SetErr(err)
		}
	}
}

var errNoReply = errors.New("no reply")

func noScript(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }

// Release implements [Driver].
func (d *RedisDriver) Release(ctx context.Context, c Claim) (bool, error) {
	if err := d.unusable(); err != nil {
		return false, err
	}
	return rediskit.Do(ctx, d.acquiring, rediskit.Writes, func(ctx context.Context) (bool, error) {
		return d.releaseNow(ctx, c)
	}, nil)
}

func (d *RedisDriver) releaseNow(ctx context.Context, c Claim) (bool, error) {
	if c.Permits > 0 {
		return d.releasePermit(ctx, c)
	}
	line := rediskit.Key(d.prefix, c.Key, lineSuffix)
	reply, err := releaseScript.Run(ctx, d.client, []string{line[:len(line)-len(lineSuffix)], line},
		c.Token, graceArg, d.channels, ownerLen, c.Key, d.counted)
	return reply == int64(1), err
}

// Break implements [Driver].
func (d *RedisDriver) Break(ctx context.Context, key string) (uint64, error) {
	if err := d.unusable(); err != nil {
		return 0, err
	}
	return rediskit.Do(ctx, d.acquiring, rediskit.Writes, func(ctx context.Context) (uint64, error) {
		g, err := parseGrant(breakScript.Run(ctx, d.client,
			d.companions(key), fenceTTLArg, graceArg, d.channels, ownerLen, key, d.counted))
		if err == nil && g.Fence == 0 {
			err = invalid("the reply is no fence")
		}
		return g.Fence, err
	}, nil)
}

// What follows a token in the store. Where another hand has set a key it keeps
// what may be a secret from being shown.
const (
	by      = " by "  // and what the claim says of itself
	passing = " next" // see line.lua
)

// metadata returns what follows the token of a claim in the store.
func metadata(holder string) string {
	if holder == "" {
		return ""
	}
	return by + holder
}

// parseGrant reads a reply of mint.lua or permit.lua.
func parseGrant(reply any, err error) (Grant, error) {
	if err != nil {
		return Grant{}, err
	}
	switch reply := reply.(type) {
	case string:
		fence, err := strconv.ParseUint(reply, 10, 64)
		if err != nil || fence == 0 {
			return Grant{}, invalid("the fence in the store is not a number")
		}
		return Grant{Fence: fence}, nil
	case []any:
		if len(reply) != 2 {
			break
		}
		left, isInt := reply[0].(int64)
		text, isText := reply[1].(string)
		if !isInt || !isText {
			break
		}
		most := MaxTTL.Milliseconds() // what lasts longer, or for ever, was set by other hands
		if left == -1 {
			left = most
		}
		g := Grant{Remaining: time.Duration(min(max(left, 0), most)) * time.Millisecond, Passing: text == passing}
		if holder, ok := strings.CutPrefix(text, by); ok && len(holder) <= maxHolder {
			g.Holder = holder
		}
		return g, nil
	}
	return Grant{}, invalid("the reply is neither fence nor time: %T", reply)
}
