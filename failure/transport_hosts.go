package failure

import (
	"container/list"
	"sync"
)

// hosts keeps the policies of hosts, those used last first.
type hosts struct {
	mu    sync.Mutex // guards what follows
	byKey map[string]*list.Element
	order list.List // of *hostPolicies
}

// hostPolicies are those of one host.
type hostPolicies struct {
	host     string
	policies *Standard
	active   int // requests under way, guarded by hosts.mu
}

// protected is how many policies that must stay are passed over in the search
// for some that need not.
const protected = 16

// take returns the policies of a host, until put.
func (h *hosts) take(host string, create func(host string) *Standard, most int) *hostPolicies {
	if p := h.find(host); p != nil {
		return p
	}
	p := &hostPolicies{host: host, policies: create(host)} // with no lock held
	if most == 0 {
		most = DefaultMaxHosts
	}
	return h.add(p, most)
}

func (h *hosts) find(host string) *hostPolicies {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.use(host)
}

// use requires h.mu.
func (h *hosts) use(host string) *hostPolicies {
	e := h.byKey[host]
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
		h.byKey = make(map[string]*list.Element)
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
	if p.policies == nil || p.policies.Breaker == nil {
		return true
	}
	state := p.policies.Breaker.State()
	return state == StateClosed || state == StateHalfOpen
}

func (h *hosts) put(p *hostPolicies) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.active--
}
