package relocation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// What zero fields of [DialOptions] mean.
const (
	DefaultBufferBytes    = 8 << 20
	DefaultBufferMessages = 1 << 16
	DefaultMinBackoff     = 200 * time.Millisecond
	DefaultMaxBackoff     = 20 * time.Second
	DefaultDialTimeout    = 10 * time.Second
	DefaultMigrateTimeout = 5 * time.Second
)

// DialOptions configures a [Conn]. Nil is fine. Negative fields, and sizes above
// 2^30, are refused with transparency.ErrInvalid: a Conn needs its bounds.
type DialOptions struct {
	// MaxMessage is how many bytes a message from the server may have. One
	// that has more ends the session, with [ErrTooLarge]. Zero means
	// [DefaultMaxMessage].
	MaxMessage int

	// Window is how many bytes the server may send ahead of what the
	// application has done with. One message always fits. Zero means
	// [DefaultWindow].
	Window int

	// BufferBytes and BufferMessages bound what was sent and is not
	// acknowledged: beyond them Send waits. One message always fits. Zero
	// means [DefaultBufferBytes] and [DefaultBufferMessages].
	BufferBytes    int
	BufferMessages int

	// MinBackoff and MaxBackoff bound the time before an attempt to connect:
	// it is random, below a ceiling that doubles from the one to the other
	// with every attempt, and starts anew when a connection has stood for ten
	// seconds. Zero means [DefaultMinBackoff] and [DefaultMaxBackoff].
	MinBackoff, MaxBackoff time.Duration

	// DialTimeout bounds one attempt: the dial and the server's answer. Zero
	// means [DefaultDialTimeout].
	DialTimeout time.Duration

	// MigrateTimeout bounds the wait for a server that is left in a planned
	// move to finish with what it was sent. Zero means
	// [DefaultMigrateTimeout].
	MigrateTimeout time.Duration

	// Credentials returns what is shown to the server at every opening, at
	// most 8 KiB. An error that wraps transparency.ErrDenied ends the Conn;
	// any other is a failed attempt. Nil shows nothing.
	Credentials func(ctx context.Context) ([]byte, error)

	// Logger is told of changes of state and of attempts that fail. Nil
	// discards.
	Logger *slog.Logger
}

// longest is more than any wait here, and can be added to any time.
const longest = 365 * 24 * time.Hour

// withDefaults returns a copy, and why it can never work.
func (o *DialOptions) withDefaults() (DialOptions, error) {
	var opts DialOptions
	if o != nil {
		opts = *o
	}
	for _, f := range []struct {
		name  string
		field *int
		value int
	}{
		{"MaxMessage", &opts.MaxMessage, DefaultMaxMessage},
		{"Window", &opts.Window, DefaultWindow},
		{"BufferBytes", &opts.BufferBytes, DefaultBufferBytes},
		{"BufferMessages", &opts.BufferMessages, DefaultBufferMessages},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
		if *f.field < 1 || *f.field > hardMessage {
			return opts, invalid("%s is %d, not from 1 to %d", f.name, *f.field, hardMessage)
		}
	}
	for _, f := range []struct {
		name  string
		field *time.Duration
		value time.Duration
	}{
		{"MinBackoff", &opts.MinBackoff, DefaultMinBackoff},
		{"MaxBackoff", &opts.MaxBackoff, DefaultMaxBackoff},
		{"DialTimeout", &opts.DialTimeout, DefaultDialTimeout},
		{"MigrateTimeout", &opts.MigrateTimeout, DefaultMigrateTimeout},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
		if *f.field < 0 {
			return opts, invalid("%s is %v, and a Conn needs one", f.name, *f.field)
		}
		*f.field = min(*f.field, longest)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return opts, nil
}

// Addresses returns a function for [Dial] that always returns addrs.
func Addresses(addrs []string) func(context.Context) ([]string, error) {
	fixed := append([]string(nil), addrs...)
	return func(context.Context) ([]string, error) { return append([]string(nil), fixed...), nil }
}

// Dial begins a session with one of the servers that addrs names, and returns
// when it answered. It asks them once, in random order, and follows a server
// that points to another, up to three times. The addresses are asked for anew
// whenever the Conn looks for a server.
//
// The context bounds the first connection alone. The error is [ErrNoServer]
// joined with what went wrong at each address; or at once
// transparency.ErrDenied when the caller was refused for who it is,
// [ErrProtocol] when a server speaks no common version, and
// transparency.ErrInvalid when the arguments can never work.
//
// The Conn must be closed with [Conn.Close].
func Dial(ctx context.Context, addrs func(context.Context) ([]string, error), d Dialer, opts *DialOptions) (*Conn, error) {
	o, err := opts.withDefaults()
	switch {
	case err != nil:
	case addrs == nil:
		err = invalid("no function for addresses")
	case d == nil:
		err = invalid("no dialer")
	default:
		c := newConn(addrs, d, o)
		if err = c.first(ctx); err == nil {
			return c, nil
		}
		c.mu.Lock()
		c.end(err)
		c.unlock()
	}
	return nil, failed("dial", err)
}

// first makes the first connection.
func (c *Conn) first(ctx context.Context) error {
	var errs []error
	pool, err := c.addrs(ctx)
	if err != nil {
		errs = append(errs, err)
	}
	pool = shuffled(pool)
	hops := 0
	for len(pool) > 0 && ctx.Err() == nil {
		addr := pool[0]
		pool = pool[1:]
		v := c.connect(ctx, addr)
		switch {
		case v.ok:
			return nil
		case v.final != nil:
			return fmt.Errorf("%w: %w", v.final, v.err)
		case len(v.locations) > 0 && hops < maxHops:
			hops++
			pool = append(v.locations, pool...)
		}
		errs = append(errs, v.err)
	}
	if err := ctx.Err(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		errs = append(errs, errors.New("no addresses"))
	}
	return fmt.Errorf("%w: %w", ErrNoServer, errors.Join(errs...))
}

func shuffled(addrs []string) []string {
	addrs = append([]string(nil), addrs...)
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	return addrs
}

func failed(op string, err error) error { return fmt.Errorf("relocation: %s: %w", op, err) }
