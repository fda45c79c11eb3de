package session

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

// A Session is one session as a [Manager] loaded or stored it. It does not
// change: Update and Renew return another. It prints, logs and marshals as
// text without its value and token.
//
// Except for Value, a Session is safe for concurrent use.
type Session[T any] struct {
	// Value is the caller's own copy. What is done to it is not saved; that is
	// what [Manager.Update] is for.
	Value T

	token    Token
	payload  []byte // the JSON of the value as stored; never written to
	version  Version
	created  time.Time
	lastSeen time.Time
	expires  time.Time
	deadline time.Time
	asOf     time.Time
}

func newSession[T any](token Token, rec Record, payload []byte, v T) *Session[T] {
	return &Session[T]{
		Value: v, token: token, payload: payload, version: rec.Version,
		created: rec.Created, lastSeen: rec.LastSeen, expires: rec.Expires, deadline: rec.Deadline, asOf: rec.AsOf,
	}
}

// openSession reads a record for the holder of token.
func openSession[T any](token Token, rec Record) (*Session[T], error) {
	e, err := decodeEnvelope(rec.Data)
	if err != nil {
		return nil, err
	}
	if !e.admits(token) {
		return nil, ErrNotFound
	}
	v, err := decodeJSON[T](e.payload)
	if err != nil {
		return nil, err
	}
	return newSession(token, rec, e.payload, v), nil
}

// seen returns the session with the times of a touch.
func (s *Session[T]) seen(rec Record) *Session[T] {
	c := *s
	c.lastSeen, c.expires, c.deadline, c.asOf = rec.LastSeen, rec.Expires, rec.Deadline, rec.AsOf
	return &c
}

// or returns s, or the zero Session for a nil one.
func (s *Session[T]) or() *Session[T] {
	if s == nil {
		return new(Session[T])
	}
	return s
}

// Token returns the token by which the client comes back.
func (s *Session[T]) Token() Token { return s.or().token }

// Created returns when the session was created, by the store's clock.
func (s *Session[T]) Created() time.Time { return s.or().created }

// Expires returns the instant, by the store's clock, at which the session ends
// if it is not used before.
func (s *Session[T]) Expires() time.Time { return s.or().expires }

// Deadline returns the instant, by the store's clock, at which the session
// ends in any case.
func (s *Session[T]) Deadline() time.Time { return s.or().deadline }

// String describes the session without its value and token. It and the
// methods below have values as receivers, so that a Session prints no more
// when it is not behind its pointer.
func (s Session[T]) String() string {
	return fmt.Sprintf("session.Session{expires %s}", s.expires.Format(time.RFC3339))
}

// Format writes [Session.String] for every verb.
func (s Session[T]) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue is the session without its value and token.
func (s Session[T]) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is the session without its value and token.
func (s Session[T]) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
