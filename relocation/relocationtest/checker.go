package relocationtest

import (
	"errors"
	"fmt"
	"sync"
)

// A Checker keeps the history of any number of streams, each one direction of
// one session with one sender, and tells what went wrong in it: a message that
// was lost, doubled, reordered or made up, one that was handled although Send
// refused it, one that came again without being marked, and a handler that ran
// under an older generation after one had run under a newer.
//
// Payloads of a stream must differ. The zero value is ready to use, and safe
// for concurrent use.
type Checker struct {
	mu      sync.Mutex // guards what follows
	streams map[string]*stream
	faults  []error
}

// A Handling is what a handler, or a receiver, was given.
type Handling struct {
	Seq         uint64
	Payload     string
	Redelivered bool
	// Generation is the session's; zero where the handler has none.
	Generation uint64
}

// Counts sums up streams.
type Counts struct {
	Sent, Refused, Handled int // messages, each once
	Again                  int // handlings of a message beyond its first, all marked
}

type stream struct {
	order      []string            // payloads as they were offered
	offered    map[string]*message // the same
	next       int                 // the first of order that was not handled
	last       uint64              // the number handled last
	generation uint64
	again      int
}

type message struct {
	outcome    outcome
	handled    int
	generation uint64 // in which it was handled last
}

type outcome uint8

const (
	pending outcome = iota
	taken
	refused
)

func (c *Checker) stream(name string) *stream {
	if c.streams == nil {
		c.streams = make(map[string]*stream)
	}
	s := c.streams[name]
	if s == nil {
		s = &stream{offered: make(map[string]*message)}
		c.streams[name] = s
	}
	return s
}

func (c *Checker) fault(name, format string, args ...any) {
	if len(c.faults) < 100 {
		c.faults = append(c.faults, fmt.Errorf("stream %s: %w", name, fmt.Errorf(format, args...)))
	}
}

// Send records a message as offered, calls send with it and records what came
// of it. It returns the error of send.
func (c *Checker) Send(name, payload string, send func([]byte) error) error {
	c.mu.Lock()
	s := c.stream(name)
	if s.offered[payload] != nil {
		c.fault(name, "%q is sent twice by the test", payload)
	}
	m := &message{}
	s.offered[payload] = m
	s.order = append(s.order, payload)
	c.mu.Unlock()

	err := send([]byte(payload))

	c.mu.Lock()
	defer c.mu.Unlock()
	m.outcome = taken
	if err != nil {
		m.outcome = refused
		if m.handled > 0 {
			c.fault(name, "%q was handled, and Send says %w", payload, err)
		}
	}
	return err
}

// Handle records a handling.
func (c *Checker) Handle(name string, h Handling) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stream(name)
	m := s.offered[h.Payload]
	if m == nil {
		c.fault(name, "%d is %q, which nobody sent", h.Seq, h.Payload)
		return
	}
	if m.outcome == refused {
		c.fault(name, "%d is %q, which Send had refused", h.Seq, h.Payload)
	}
	if h.Generation < s.generation {
		c.fault(name, "%d was handled in generation %d after one of generation %d", h.Seq, h.Generation, s.generation)
	}
	again := m.handled > 0
	m.handled++
	switch {
	case again && !h.Redelivered:
		c.fault(name, "%d was doubled, unmarked", h.Seq)
	case again && h.Generation == m.generation && h.Generation != 0:
		c.fault(name, "%d was doubled within generation %d", h.Seq, h.Generation)
	case again:
		s.again++
	}
	switch {
	case h.Seq == s.last+1:
	case again && h.Seq <= s.last && h.Generation > s.generation: // a new owner begins where the store stood
	default:
		c.fault(name, "%d came after %d", h.Seq, s.last)
	}
	if !again {
		s.inOrder(c, name, h)
	}
	s.last = h.Seq
	s.generation = max(s.generation, h.Generation)
	m.generation = h.Generation
}

// inOrder checks that everything offered before the message was handled or
// refused.
func (s *stream) inOrder(c *Checker, name string, h Handling) {
	for ; s.next < len(s.order); s.next++ {
		payload := s.order[s.next]
		m := s.offered[payload]
		if payload == h.Payload {
			s.next++
			return
		}
		if m.handled == 0 && m.outcome == taken {
			c.fault(name, "%d is %q, and %q was sent before and not handled", h.Seq, h.Payload, payload)
		}
	}
	c.fault(name, "%d is %q, out of order", h.Seq, h.Payload)
}

// Counts returns the sums of all streams.
func (c *Checker) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	var n Counts
	for _, s := range c.streams {
		n.Again += s.again
		for _, m := range s.offered {
			switch m.outcome {
			case taken:
				n.Sent++
			case refused:
				n.Refused++
			}
			if m.handled > 0 {
				n.Handled++
			}
		}
	}
	return n
}

// Faults returns what is wrong with the history so far, nil if nothing is.
func (c *Checker) Faults() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.faults...)
}

// Final returns what is wrong with the history when nothing more will happen:
// Faults, and every message that was taken and not handled.
func (c *Checker) Final() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	faults := append([]error(nil), c.faults...)
	for name, s := range c.streams {
		lost := 0
		first := ""
		for _, payload := range s.order {
			if m := s.offered[payload]; m.outcome == taken && m.handled == 0 {
				if lost++; lost == 1 {
					first = payload
				}
			}
		}
		if lost > 0 {
			faults = append(faults, fmt.Errorf("stream %s: %d lost, the first %q", name, lost, first))
		}
	}
	return errors.Join(faults...)
}
