package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/backoff"
)

// LeaderOptions configures [RunLeader] and [NewLeader]. Nil is fine.
type LeaderOptions struct {
	// The pause before the next campaign is random, between zero and Base,
	// doubled for each that has failed in a row, but at most Max. Zero means
	// 50 ms, and two seconds or Base if that is longer; a negative Base means
	// no pause, a negative Max no bound.
	Base, Max time.Duration

	// Logger is told who leads, of leadership that was lost, and of campaigns
	// that fail. Nil discards.
	Logger *slog.Logger
}

// RunLeader has fn called by one process at a time among all that run the same
// with mutexes of one key, and by another when the one has gone. It waits for
// the lock m, calls fn under the lease, with its fence, and so on again when
// the lease is lost. It returns when
//
//   - fn returns under a lease that is still held: what fn returned, be it nil
//     or an error, which is not tried again;
//   - ctx ends while it waits, or while fn runs under a lease that is lost: an
//     error that wraps that of ctx;
//   - campaigning makes no sense any more: an error wrapping [ErrClosed],
//     [transparency.ErrInvalid] or [transparency.ErrDenied].
//
// The lock is free at once in each case, and when fn panics or calls
// runtime.Goexit, which pass through. Other errors of a campaign are sat out,
// with pauses. An error of fn that wraps [ErrStaleFence] counts as a loss, for
// the resource has seen a later leader; so does any error of fn once the lease
// is lost, and is logged, since it most likely tells of that.
//
// fn runs on the calling goroutine. Its context ends when ctx does or when the
// lease is lost ([context.Cause] then wraps [ErrLost]). It is for fn to stop, and
// until it has, it is waited for: the lock stays held after the end of ctx, and
// a lease that was lost is not sought again, so one call never has two fns
// running. Another process can lead by then, as the package page tells under
// "The fence".
//
// Those who have to look at it from outside use a [Leader].
func RunLeader(ctx context.Context, m Mutex, opts *LeaderOptions, fn func(ctx context.Context, fence uint64) error) error {
	return NewLeader(m, opts).Run(ctx, fn)
}

// A Leader is [RunLeader] that can be watched. It is safe for concurrent use.
// It comes from [NewLeader]; the zero value has no lock to campaign for.
type Leader struct {
	m      Mutex
	pauses backoff.Policy
	logger *slog.Logger

	mu      sync.Mutex // guards what follows
	running bool
	serving *term       // whose function has been called and has not returned
	now     *leaderLink // nil before there is anything to tell
}

// NewLeader returns a Leader that campaigns for m. It does no I/O and starts
// nothing.
func NewLeader(m Mutex, opts *LeaderOptions) *Leader {
	var o LeaderOptions
	if opts != nil {
		o = *opts
	}
	if o.Max == 0 {
		o.Max = max(backoff.DefaultMax, o.Base)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Leader{m: m, pauses: backoff.Policy{Base: o.Base, Max: o.Max}, logger: o.Logger}
}

// Run is [RunLeader]. It can be called again once it has returned, not before:
// then it returns an error wrapping [transparency.ErrInvalid].
func (l *Leader) Run(ctx context.Context, fn func(ctx context.Context, fence uint64) error) (err error) {
	if err := l.begin(fn); err != nil {
		return fmt.Errorf("lock: lead: %w", err)
	}
	err = errUnwound // unless run returns
	defer func() { l.end(err) }()
	err = l.run(ctx, fn)
	return err
}

var errUnwound = errors.New("the leader's function did not return")

func (l *Leader) begin(fn func(context.Context, uint64) error) error {
	switch {
	case l == nil || l.m == nil:
		return invalid("there is no mutex; a Leader comes from NewLeader")
	case fn == nil:
		return invalid("there is no function to call")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running {
		return invalid("the Leader runs already")
	}
	l.running = true
	l.change(LeaderChange{State: LeaderCampaigning})
	return nil
}

// run campaigns and serves, term after term.
func (l *Leader) run(ctx context.Context, fn func(context.Context, uint64) error) error {
	for failures := 0; ; failures++ {
		t := term{l: l, fn: fn}
		err := Do(ctx, l.m, t.serve)
		if t.served() {
			if err == nil && !errors.Is(t.err, ErrStaleFence) {
				return t.err
			}
			err = join(err, t.err)
		}
		if ctxErr := ctx.Err(); ctxErr != nil {
			return ended(err, ctxErr)
		}
		switch {
		case t.served():
			l.logger.Warn("lock: leadership lost", "fence", t.fence, "error", err)
			if time.Since(t.began) > settled {
				failures = 0
			}
		case final(err):
			return err
		case failures == 0:
			l.logger.Warn("lock: campaign failed, trying again", "error", err)
		}
		l.campaign(err)
		if ctxErr := backoff.Sleep(ctx, l.pauses.Delay(failures)); ctxErr != nil {
			return ended(err, ctxErr)
		}
	}
}

// settled is how long a term lasts after which pauses begin anew, so that who
// is elected only to lose at once does not do so without end and pause.
const settled = 2 * time.Second

// final reports whether a campaign that failed so would fail again.
func final(err error) bool {
	return errors.Is(err, ErrClosed) || !uncertain(err) &&
		(errors.Is(err, transparency.ErrInvalid) || errors.Is(err, transparency.ErrDenied))
}

// ended is the error of a Run whose context has ended, after err.
func ended(err, ctxErr error) error {
	if errors.Is(err, ctxErr) {
		return err
	}
	return fmt.Errorf("%w: %w", ctxErr, err)
}

func join(loss, err error) error {
	switch {
	case loss == nil:
		return err
	case err == nil:
		return loss
	}
	return fmt.Errorf("%w: %w", loss, err)
}

// A term is a campaign and, when that is won, the call of fn that follows. It
// is a section of Do, which sees to panics.
type term struct {
	l     *Leader
	fn    func(context.Context, uint64) error
	fence uint64
	began time.Time
	err   error // of fn, which is kept from Do, whose own error tells of the lease
}

func (t *term) served() bool { return !t.began.IsZero() }

func (t *term) serve(ctx context.Context, fence uint64) error {
	t.fence, t.began = fence, time.Now()
	t.l.logger.Info("lock: leading", "fence", fence)
	t.l.lead(t)
	stop := context.AfterFunc(ctx, func() { t.l.leave(t, context.Cause(ctx)) })
	defer func() {
		stop()
		t.l.left()
	}()
	t.err = t.fn(ctx, fence)
	return nil
}

// String says what the Leader is doing.
func (l *Leader) String() string { return fmt.Sprintf("lock.Leader(%v)", l.State()) }

// Format is String for every verb.
func (l *Leader) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, l.String()) }
