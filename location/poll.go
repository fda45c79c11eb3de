package location

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/internal/backoff"
)

// minGap is the least time between two looks at a service for the sake of
// hints, however many come in.
const minGap = 500 * time.Millisecond

// Watch implements [Watcher], with one poller for all who watch a service.
func (r *Registry) Watch(ctx context.Context, service string) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {
		if ctx.Err() != nil {
			return
		}
		name, err := CleanService(service)
		var v *view
		if err == nil {
			v, err = r.attend(name)
		}
		if err != nil {
			if yield(Snapshot{}, failed("watch", name, err)) {
				<-ctx.Done()
			}
			return
		}
		defer r.leave(v)
		var last *event
		for {
			r.mu.Lock()
			told, changed := v.told, v.changed
			r.mu.Unlock()
			if ctx.Err() != nil {
				return
			}
			if told != nil && (last == nil || !told.same(*last)) {
				last = told
				err := told.err
				if err != nil {
					err = failed("watch", name, err)
				}
				if !yield(told.snapshot, err) {
					return
				}
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// attend counts one more who watches the service.
func (r *Registry) attend(name string) (*view, error) {
	if !r.made() {
		return nil, errNotMade
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	v, err := r.find(name)
	if err != nil {
		return nil, err
	}
	if v.watchers == 0 && r.watched >= r.opts.MaxServices {
		r.forget(v)
		return nil, fmt.Errorf("%w: %d services are watched already", transparency.ErrRejected, r.watched)
	}
	v.watchers++
	if v.watchers == 1 {
		r.watched++
		ctx, cancel := context.WithCancel(r.ctx)
		v.stop, v.told = cancel, nil
		r.tasks.Add(1)
		go r.poll(ctx, v)
	}
	r.listen()
	return v, nil
}

func (r *Registry) leave(v *view) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unlisten()
	if v.watchers--; v.watchers == 0 {
		v.stop()
		r.watched--
		r.forget(v)
		r.trim()
	}
}

// poll looks at the service until nobody watches it.
func (r *Registry) poll(ctx context.Context, v *view) {
	defer r.tasks.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		r.mu.Lock()
		if r.closed {
			v.tell(event{err: ErrClosed})
		}
		if ctx.Err() != nil {
			r.mu.Unlock()
			return
		}
		f := r.look(v)
		r.mu.Unlock()
		began := time.Now()
		<-f.done // it is bounded

		timer.Reset(jittered(r.opts.Poll))
		select {
		case <-timer.C:
		case <-v.kick:
			_ = backoff.Sleep(ctx, minGap-time.Since(began))
		case <-ctx.Done():
		}
	}
}

// wakeService has the service looked at soon, if it is watched. It requires
// r.mu.
func (r *Registry) wakeService(service string) {
	if v, ok := r.views[service]; ok {
		v.rouse()
	}
}

func (v *view) rouse() {
	select {
	case v.kick <- struct{}{}:
	default: // it has been told
	}
}

// An ear hears of changes. It is there while anyone watches.
type ear struct {
	watchers int
	cancel   context.CancelFunc // nil when there is none
}

// listen requires r.mu.
func (r *Registry) listen() {
	if r.ear.watchers++; r.ear.watchers == 1 {
		ctx, cancel := context.WithCancel(r.ctx)
		r.ear.cancel = cancel
		r.tasks.Add(1)
		go r.hear(ctx)
	}
}

// unlisten is called once for each listen. It requires r.mu.
func (r *Registry) unlisten() {
	if r.ear.watchers--; r.ear.watchers == 0 {
		r.ear.cancel()
	}
}

func (r *Registry) hear(ctx context.Context) {
	defer r.tasks.Done()
	var heard atomic.Bool
	for failures := 0; ; failures++ {
		err := r.driver.Listen(ctx, func(service string) {
			heard.Store(true)
			r.wake(service)
		})
		if ctx.Err() != nil {
			return
		}
		if heard.Swap(false) {
			failures = 0
		}
		r.opts.Logger.Debug("location: changes are not heard of, only looked for", "error", err)
		if backoff.Sleep(ctx, hearAgain.Delay(failures)) != nil {
			return
		}
	}
}

var hearAgain = backoff.Policy{Base: 100 * time.Millisecond, Max: 5 * time.Second}

// wake has the service looked at soon, or all when its name is empty.
func (r *Registry) wake(service string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if service != "" {
		r.wakeService(service)
		return
	}
	for _, v := range r.views {
		v.rouse()
	}
}
