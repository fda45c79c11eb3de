package failure

import (
	"container/list"
	"net/url"
	"strings"
	"sync"
)

// hosts keeps the policies of hosts, those used last first.
type hosts struct {
	mu    sync.Mutex // guards what follows
	byKey map[host]*list.Element
	order list.List // of *hostPolicies
}

// A host is where a request goes to.
type host struct{ scheme, addr string }

func hostOf(u *url.URL) host { return host{strings.ToLower(u.Scheme), strings.ToLower(u.Host)} }

func (h host) String() string { return h.scheme + "://" + h.addr }

// hostPolicies are those of one host.
type hostPolicies struct {
	host         host
	all          *Standard
	outer, inner []Policy // of all
	active       int      // requests under way, guarded by hosts.mu
}

// protected is how many policies that must stay are passed over in the search
// for some that need not.
const protected = 16

// take returns the policies of a host, until put.
func (h *hosts) take(at host, create func(host string) *Standard, most int) *hostPolicies {
	if p := h.find(at); p != nil {
		return p
	}
	p := &hostPolicies{host: at, all: create(at.String())} // with no lock held
	if p.all != nil {
		p.outer, p.inner = p.all.outer(nil), p.all.inner(nil)
	}
	if most == 0 {
		most = DefaultMaxHosts
	}
	return h.add(p, most)
}

func (h *hosts) find(at host) *hostPolicies {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.use(at)
}

// use requires h.mu.
func (h *hosts) use(at host) *hostPolicies {
	e := h.byKey[at]
	if e == nil {
		return nil
	}
	h.order.MoveToFront(e)
	p := e.Value.(*hostPolicies)
	p.active++
	return p
}

// add keeps p if there is room and nobody else was faster.
func (h *hosts) add(p *hostPolicies, most int) *hostPolicies {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other := h.use(p.host); other != nil {
		return other
	}
	p.active++
	if most > 0 && len(h.byKey) >= most && !h.forget() {
		return p
	}
	if h.byKey == nil {
		h.byKey = make(map[host]*list.Element)
	}
	h.byKey[p.host] = h.order.PushFront(p)
	return p
}

// forget makes room, if it can. It requires h.mu.
func (h *hosts) forget() bool {
	for range min(h.order.Len(), protected) {
		e := h.order.Back()
		p := e.Value.(*hostPolicies)
		if p.active == 0 && p.idle() {
			h.order.Remove(e)
			delete(h.byKey, p.host)
			return true
		}
		h.order.MoveToFront(e)
	}
	return false
}

// idle reports whether nothing is lost with the policies that matters.
func (p *hostPolicies) idle() bool {
	if p.all == nil || p.all.Breaker == nil {
		return true
	}
	state := p.all.Breaker.State()
	return state == StateClosed || state == StateHalfOpen
}

func (h *hosts) put(p *hostPolicies) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.active--
}
