package failure

import (
	"context"
	"errors"
	"net/http"
)

// DefaultMaxHosts is what a zero field of [TransportOptions] means.
const DefaultMaxHosts = 1000

// TransportOptions configures a [Transport]. Nil is fine.
type TransportOptions struct {
	// Policies returns the policies for a host, given as in
	// "https://api.example:8443". It is called for the first request to a host,
	// and again when they have been forgotten. Nil means [NewStandard].
	Policies func(host string) *Standard

	// MaxHosts is how many hosts' policies are kept. Those that were not used
	// longest are forgotten first, but none with a request under way or with a
	// breaker that is open; if there is no room, those of a new host last for
	// one request. Zero means [DefaultMaxHosts]; negative means no bound.
	MaxHosts int
}

// A Transport is an [http.RoundTripper] that sends requests through policies,
// of which each host has its own. To a Breaker of theirs, a status from 500 on
// is a failure, and any other an answer. The Timeout lasts until the head of
// the response is there; the body has the time of the request's context.
//
// A Retry sends a request again when the host was not reached, or when the
// request may be sent twice and was not answered, or with 408, 429, 500, 502,
// 503 or 504. It may be sent twice if its method is GET, HEAD, OPTIONS, TRACE,
// PUT or DELETE (RFC 9110, section 9.2.2), if it has an Idempotency-Key or
// X-Idempotency-Key header, as for [http.Transport], or by [WithIdempotent]. If
// it has a body it needs GetBody too, which [http.NewRequest] sets for the
// common kinds; else it is sent once. A Retry-After header, in seconds or with a
// date, is heeded up to the MaxRetryAfter of the Retry.
//
// A status never becomes an error: when no policy allows another attempt, the
// last response is returned. Responses before it have been closed, and read up
// to 64 KiB, so that their connections can be used again.
type Transport struct {
	base  http.RoundTripper
	opts  TransportOptions
	hosts hosts
}

// NewTransport returns a Transport over base; nil means
// [http.DefaultTransport].
func NewTransport(base http.RoundTripper, opts *TransportOptions) *Transport {
	t := &Transport{base: base}
	if opts != nil {
		t.opts = *opts
	}
	return t
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements [http.RoundTripper]. It does not change the request, and
// closes its body in any case. Its errors wrap what the policies and the
// classes of the root package say: ErrUnavailable of a request that was not
// sent or changes nothing, and ErrUncertain of others that have no answer. They
// name the method and the host, and no more of the URL; those of a time limit
// have a method Timeout, which [url.Error] asks.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t == nil || req == nil || req.URL == nil {
		if req != nil && req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, failed("transport", "", invalid("there is no transport, request or URL"))
	}
	x := &exchange{base: t.base, req: req, host: hostOf(req.URL), safe: safe(req)}
	if x.base == nil {
		x.base = http.DefaultTransport
	}
	defer x.finish() // for panics and Goexit
	kept := t.hosts.take(x.host, t.policies, t.opts.MaxHosts)
	defer t.hosts.put(kept)
	ctx := req.Context()
	if x.safe || repeats(req) {
		ctx = WithIdempotent(ctx)
	}
	return x.response(x.through(ctx, kept))
}

func (t *Transport) policies(host string) *Standard {
	if t.opts.Policies != nil {
		return t.opts.Policies(host)
	}
	return NewStandard(host)
}

// CloseIdleConnections closes those of the base, if it can.
func (t *Transport) CloseIdleConnections() {
	if t == nil {
		return
	}
	base := t.base
	if base == nil {
		base = http.DefaultTransport
	}
	if closer, ok := base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// safe reports whether a request changes nothing (RFC 9110, section 9.2.1).
func safe(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// repeats reports whether a request that changes something may be sent twice.
func repeats(req *http.Request) bool {
	if req.Method == http.MethodPut || req.Method == http.MethodDelete {
		return true
	}
	_, key := req.Header["Idempotency-Key"]
	_, xKey := req.Header["X-Idempotency-Key"]
	return key || xKey
}

// through makes the exchange through the policies of its host.
func (x *exchange) through(ctx context.Context, p *hostPolicies) (any, error) {
	if p.all == nil {
		return nil, x.invalid("its policies are nil")
	}
	outer, inner := p.outer, p.inner
	if x.req.Body != nil && x.req.Body != http.NoBody && x.req.GetBody == nil {
		once := *p.all // the body can be read once
		once.Retry, once.Hedge = nil, nil
		outer, inner = once.outer(nil), once.inner(nil)
	}
	return through(ctx, outer, func(ctx context.Context) (any, error) {
		result, err := through(ctx, inner, x.attempt)
		if r, ok := result.(*response); ok && err == nil && r.again() {
			return r, r // to the breaker it was an answer
		}
		return result, err
	})
}

// response returns what RoundTrip returns, and lets all other responses go.
func (x *exchange) response(result any, err error) (*http.Response, error) {
	r, ok := result.(*response)
	switch {
	case err == nil && !ok:
		err = x.invalid("a policy returned %T for a response", result)
	case err != nil:
		r = nil
		if x.req.Context().Err() == nil && errors.As(err, new(*response)) {
			r = x.last()
		}
	}
	if x.end(r) {
		return r.Response, nil //nolint:nilerr // a status is no error
	}
	if err == nil {
		err = x.invalid("a policy returned a response that is closed")
	}
	return nil, withTimeout(err)
}
