package lock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/rediskit"
)

var (
	//go:embed mint.lua
	mintSource string
	//go:embed renew.lua
	renewSource string
	//go:embed release.lua
	releaseSource string

	mintScript    = rediskit.NewScript(mintSource)
	renewScript   = rediskit.NewScript(renewSource)
	releaseScript = rediskit.NewScript(releaseSource)
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

// RedisDriver keeps locks in Redis. The package page tells its keys.
type RedisDriver struct {
	client  RedisClient
	err     error // why no operation can work
	prefix  string
	counted string // "1" if PUBLISH counts all who hear

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
		client: client, err: err, prefix: o.Prefix, counted: "0",
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
	if d.client == nil && d.err == nil {
		return invalid("the RedisDriver is not from NewRedisDriver")
	}
	return d.err
}

func (d *RedisDriver) lockKey(key string) string  { return rediskit.Key(d.prefix, key, "") }
func (d *RedisDriver) fenceKey(key string) string { return rediskit.Key(d.prefix, key, ":fence") }
func (d *RedisDriver) lineKey(key string) string  { return rediskit.Key(d.prefix, key, ":line") }

// channels is what stands before the owner's name in the name of its channel.
func (d *RedisDriver) channels() string { return d.prefix + "wake:" }

// Acquire implements [Driver].
func (d *RedisDriver) Acquire(ctx context.Context, c Claim, queue bool) (Grant, error) {
	if err := d.unusable(); err != nil {
		return Grant{}, err
	}
	return rediskit.Do(ctx, d.acquiring, rediskit.Writes, func(ctx context.Context) (Grant, error) {
		return d.obtain(ctx, c, queue)
	}, func(g Grant, err error) {
		if err == nil && (g.Fence != 0 || queue) { // nobody waits for it any more
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), DefaultTimeout)
			defer cancel()
			_, _ = d.releaseNow(ctx, c.Key, c.Token) // the engine tries too
		}
	})
}

// obtain obtains the lock with redislock and mints its fence, in one round
// trip when the server knows both scripts.
func (d *RedisDriver) obtain(ctx context.Context, c Claim, queue bool) (Grant, error) {
	o := &obtaining{d: d, claim: c, queue: queue}
	_, err := redislock.New(o).Obtain(ctx, c.Key, c.TTL, &redislock.Options{Token: c.Token})
	obtained := err == nil
	if !obtained && !errors.Is(err, redislock.ErrNotObtained) {
		return Grant{}, err
	}
	grant, err := parseMint(o.mint.Result())
	if noScript(err) || obtained && err == nil && grant.Fence == 0 {
		// Not known there, or executed before the lock was obtained, as a
		// Cluster on the move can do.
		reply, runErr := mintScript.Run(ctx, d.client, o.keys(), o.args()...)
		grant, err = parseMint(reply, runErr)
	}
	if err != nil && obtained {
		if _, releaseErr := d.releaseNow(ctx, c.Key, c.Token); releaseErr != nil {
			// Whatever became of the fence, the key may be taken, and that is
			// the one class to tell. The engine will see to it.
			err = fmt.Errorf("%w: %s", transparency.ErrUncertain, rediskit.Classify(rediskit.Writes, err).Error())
		}
	}
	return grant, err
}

// Renew implements [Driver].
func (d *RedisDriver) Renew(ctx context.Context, claims []Claim) []error {
	err := d.unusable()
	if err == nil {
		var results []error
		results, err = rediskit.Do(ctx, d.renewing, rediskit.Writes, func(ctx context.Context) ([]error, error) {
			return d.renew(ctx, claims), nil
		}, nil)
		if err == nil {
			return results
		}
	}
	results := make([]error, len(claims))
	for i := range results {
		results[i] = err
	}
	return results
}

// renew sends the claims in one pipeline. A server that does not know the
// script is told it once, in a second one; servers of a Cluster that still do
// not know it are told it with every claim.
func (d *RedisDriver) renew(ctx context.Context, claims []Claim) []error {
	cmds := make([]*rediskit.Once, len(claims))
	for round, unknown := 0, len(claims); round < 3 && unknown > 0; round++ {
		batch := make([]*rediskit.Once, 0, unknown)
		for i, c := range claims {
			if round > 0 && !noScript(cmds[i].Err()) {
				continue
			}
			build := renewScript.Cmd
			if round == 2 || round == 1 && len(batch) == 0 {
				build = renewScript.Source
			}
			cmds[i] = build(ctx, []string{d.lockKey(c.Key)}, c.Token, ms(c.TTL))
			batch = append(batch, cmds[i])
		}
		d.pipeline(ctx, batch...)
		unknown = 0
		for _, cmd := range cmds {
			if noScript(cmd.Err()) {
				unknown++
			}
		}
	}
	results := make([]error, len(claims))
	for i, cmd := range cmds {
		owned, err := cmd.Bool()
		switch {
		case err != nil:
			results[i] = rediskit.Classify(rediskit.Writes, err)
		case !owned:
			results[i] = ErrLost
		}
	}
	return results
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

func noScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

// Release implements [Driver].
func (d *RedisDriver) Release(ctx context.Context, key, token string) (bool, error) {
	if err := d.unusable(); err != nil {
		return false, err
	}
	return rediskit.Do(ctx, d.acquiring, rediskit.Writes, func(ctx context.Context) (bool, error) {
		return d.releaseNow(ctx, key, token)
	}, nil)
}

func (d *RedisDriver) releaseNow(ctx context.Context, key, token string) (bool, error) {
	reply, err := releaseScript.Run(ctx, d.client, []string{d.lockKey(key), d.lineKey(key)},
		token, ms(grace), d.channels(), ownerLen, key, d.counted)
	return reply == int64(1), err
}

// obtaining is the redis.Scripter of one redislock.Obtain: it sends the
// library's script and ours in one pipeline, so that neither is sent twice.
type obtaining struct {
	redis.Scripter // nil: redislock calls the two methods below and no other

	d     *RedisDriver
	claim Claim
	queue bool
	mint  *rediskit.Once
}

// EvalSha sends redislock's script by its digest.
func (o *obtaining) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return o.send(ctx, "evalsha", sha, args)
}

// Eval sends it whole.
func (o *obtaining) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return o.send(ctx, "eval", script, args)
}

func (o *obtaining) send(ctx context.Context, name, text string, args []any) *redis.Cmd {
	keys := o.keys()
	obtain := rediskit.NewOnce(ctx, 3, append([]any{name, text, 1, keys[0]}, args...)...)
	o.mint = mintScript.Cmd(ctx, keys, o.args()...)
	o.d.pipeline(ctx, obtain, o.mint)
	return obtain.Cmd
}

func (o *obtaining) keys() []string {
	key := o.claim.Key
	return []string{o.d.lockKey(key), o.d.fenceKey(key), o.d.lineKey(key)}
}

func (o *obtaining) args() []any {
	line := "0"
	if o.queue {
		line = ms(lineTTL)
	}
	return []any{o.claim.Token, ms(fenceTTL), line, maxLine}
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// parseMint reads a reply of mint.lua.
func parseMint(reply any, err error) (Grant, error) {
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
	case int64:
		most := MaxTTL.Milliseconds() // what lasts longer, or for ever, was set by other hands
		if reply == -1 {
			reply = most
		}
		return Grant{Remaining: time.Duration(min(max(reply, 0), most)) * time.Millisecond}, nil
	}
	return Grant{}, invalid("the reply is neither fence nor time: %T", reply)
}
