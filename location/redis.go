package location

import (
	"context"
	_ "embed"
	"encoding/json"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/rediskit"
)

var (
	//go:embed register.lua
	registerSource string
	//go:embed renew.lua
	renewSource string
	//go:embed deregister.lua
	deregisterSource string
	//go:embed list.lua
	listSource string

	registerScript   = rediskit.NewScript(registerSource)
	renewScript      = rediskit.NewScript(renewSource)
	deregisterScript = rediskit.NewScript(deregisterSource)
	listScript       = rediskit.NewScript(listSource)
)

// RedisClient is what the Redis form needs of a client. *redis.Client (a
// single server or Sentinel), *redis.ClusterClient and *redis.Ring have it.
type RedisClient interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// RedisDriver keeps instances in Redis. The package page tells its keys.
type RedisDriver struct {
	client RedisClient
	err    error // why no operation can work
	prefix string

	calls *rediskit.Gate
	beats *rediskit.Gate // by themselves, so that no crowd delays a heartbeat
}

// The two gates share rediskit.Limit.
const (
	maxCalls = 48
	maxBeats = 16
)

// NewRedisDriver returns a driver over client, which stays the caller's. It
// does no I/O. Of the options it uses Prefix, Timeout and Logger.
func NewRedisDriver(client RedisClient, opts *Options) *RedisDriver {
	o, err := opts.withDefaults()
	if err == nil {
		err = rediskit.CheckClient(client)
	}
	rediskit.WarnOptions(o.Logger, client)
	return &RedisDriver{
		client: client, err: err, prefix: o.Prefix,
		calls: rediskit.NewGateOf(maxCalls, o.Timeout),
		beats: rediskit.NewGateOf(maxBeats, o.Timeout),
	}
}

// check returns why no operation can work.
func (d *RedisDriver) check() error {
	if d == nil || d.calls == nil {
		return errNotMade
	}
	return d.err
}

// String leaves the client out, for it can hold a password.
func (d *RedisDriver) String() string {
	if d == nil {
		return "location.RedisDriver(nil)"
	}
	return "location.RedisDriver(" + strconv.Quote(d.prefix) + ")"
}

// GoString is String.
func (d *RedisDriver) GoString() string { return d.String() }

// keys returns the keys of a service: all in one slot.
func (d *RedisDriver) keys(service string) []string {
	return []string{
		rediskit.Key(d.prefix, service, ":live"),
		rediskit.Key(d.prefix, service, ":data"),
		rediskit.Key(d.prefix, service, ":meta"),
		rediskit.Key(d.prefix, service, ":gone"),
	}
}

// channel is where changes are told, of all services.
func (d *RedisDriver) channel() string { return d.prefix + "news" }

// The replies of the scripts that change something.
const (
	replyDone     = 1
	replyLost     = 0
	replyConflict = 2
)

// change runs a script on the keys of a service. Its first arguments are the
// instance's ID and token and how the service is called in the news.
func (d *RedisDriver) change(ctx context.Context, gate *rediskit.Gate, script *rediskit.Script, service string, in Instance, args ...any) error {
	args = append([]any{in.Endpoint.ID, in.Token, service, d.channel()}, args...)
	reply, err := rediskit.Do(ctx, gate, rediskit.Writes, func(ctx context.Context) (any, error) {
		return script.Run(ctx, d.client, d.keys(service), args...)
	}, nil)
	switch {
	case err != nil:
		return err
	case reply == int64(replyDone):
		return nil
	case reply == int64(replyLost):
		return ErrLost
	case reply == int64(replyConflict):
		return ErrInstanceConflict
	}
	return invalid("the reply is none of the script's")
}

// Register implements [Driver].
func (d *RedisDriver) Register(ctx context.Context, service string, in Instance, takeover bool) error {
	payload, err := json.Marshal(in.Endpoint)
	if err != nil {
		return invalid("the endpoint cannot be encoded")
	}
	force := "0"
	if takeover {
		force = "1"
	}
	if err := d.check(); err != nil {
		return err
	}
	return d.change(ctx, d.calls, registerScript, service, in, ms(in.TTL), ms(knownFor), ms(goneFor), force, payload)
}

// Renew implements [Driver].
func (d *RedisDriver) Renew(ctx context.Context, service string, in Instance) error {
	if err := d.check(); err != nil {
		return err
	}
	return d.change(ctx, d.beats, renewScript, service, in, ms(in.TTL), ms(knownFor))
}

// Deregister implements [Driver].
func (d *RedisDriver) Deregister(ctx context.Context, service string, in Instance) error {
	if err := d.check(); err != nil {
		return err
	}
	return d.change(ctx, d.calls, deregisterScript, service, in, ms(goneFor))
}

// List implements [Driver].
func (d *RedisDriver) List(ctx context.Context, service, known string) (Listing, error) {
	if err := d.check(); err != nil {
		return Listing{}, err
	}
	reply, err := rediskit.Do(ctx, d.calls, rediskit.Reads, func(ctx context.Context) (any, error) {
		return listScript.Run(ctx, d.client, d.keys(service)[:3], known)
	}, nil)
	if err != nil {
		return Listing{}, err
	}
	return parseListing(reply, known)
}

// parseListing reads a reply of list.lua.
func parseListing(reply any, known string) (Listing, error) {
	fields, ok := reply.([]any)
	if !ok {
		return Listing{}, invalid("the reply is no list")
	}
	if len(fields) == 0 {
		return Listing{}, nil
	}
	texts := make([]string, len(fields))
	for i, f := range fields {
		if texts[i], ok = f.(string); !ok {
			return Listing{}, invalid("the reply is not a list of strings")
		}
	}
	if len(texts) < 4 {
		return Listing{}, invalid("the reply has %d fields, want 4", len(texts))
	}
	void, err := strconv.ParseInt(texts[3], 10, 64)
	if err != nil || void < 0 || void > time.Hour.Milliseconds() {
		return Listing{}, invalid("the reply has a time that is none")
	}
	l := Listing{
		Known: true, Version: texts[0], Epoch: texts[1], Emptied: texts[2] == "1",
		SinceVoid: time.Duration(void) * time.Millisecond,
	}
	if l.Same = l.Version == known; l.Same {
		return l, nil
	}
	for _, text := range texts[4:] {
		e, err := decodeEndpoint([]byte(text))
		if err != nil {
			l.Broken++
			continue
		}
		l.Endpoints = append(l.Endpoints, e)
	}
	return l, nil
}

// decodeEndpoint reads what is stored for an instance. Fields that it does not
// know are those of a later version, and no fault.
func decodeEndpoint(text []byte) (Endpoint, error) {
	var e Endpoint
	if err := json.Unmarshal(text, &e); err != nil {
		return Endpoint{}, invalid("the endpoint cannot be decoded")
	}
	e, err := e.checked()
	if err == nil && e.ID == "" {
		err = invalid("the endpoint has no id")
	}
	return e, err
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Listen implements [Driver] with one subscription for all services.
func (d *RedisDriver) Listen(ctx context.Context, wake func(service string)) error {
	if err := d.check(); err != nil {
		return err
	}
	return rediskit.Listen(ctx, d.client.Subscribe(ctx, d.channel()), func(service string, begun bool) {
		if begun || service != "" {
			wake(service) // "" for what may have been missed
		}
	})
}
