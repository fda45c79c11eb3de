package lock

import (
	"fmt"
	"io"
)

// What is printed holds no token and no client, whatever the verb, and reads
// nothing without its lock.

// String leaves the token out.
func (c Claim) String() string { return fmt.Sprintf("lock.Claim(%q for %v)", c.Key, c.TTL) }

// Format is String for every verb.
func (c Claim) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// String names the lease without its token.
func (s *Lease) String() string {
	if s == nil {
		return "lock.Lease(nil)"
	}
	return fmt.Sprintf("lock.Lease(%q, fence %d)", s.claim.Key, s.fence)
}

// Format is String for every verb.
func (s *Lease) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// String names the lease that the context ends with.
func (c *watched) String() string { return c.lease.String() + ".Context" }

func (c *watched) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// String says how many leases are held.
func (l *Locker) String() string { return fmt.Sprintf("lock.Locker(%d held)", l.Stats().Held) }

// Format is String for every verb.
func (l *Locker) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, l.String()) }

// String says how many keys there are.
func (d *MemoryDriver) String() string {
	if d == nil {
		return "lock.MemoryDriver(nil)"
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprintf("lock.MemoryDriver(%d keys)", len(d.keys.m))
}

// Format is String for every verb.
func (d *MemoryDriver) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, d.String()) }

// String leaves the client out, for it can hold a password.
func (d *RedisDriver) String() string {
	if d == nil {
		return "lock.RedisDriver(nil)"
	}
	return fmt.Sprintf("lock.RedisDriver(%q)", d.prefix)
}

// Format is String for every verb.
func (d *RedisDriver) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, d.String()) }

// noCopy has go vet report copies: one that is printed would show its token.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}
