package relocation

import (
	"fmt"
	"io"
	"strconv"
)

// What is printed of the package's types, whatever the verb, holds no key, no
// token, no message and no name of a session.

// String says which Hub it is.
func (h *Hub) String() string {
	if h == nil {
		return "relocation.Hub(nil)"
	}
	return "relocation.Hub(" + h.opts.Name + ")"
}

// Format is String for every verb: the fields hold keys and messages.
func (h *Hub) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, h.String()) }

// String says how many owners the session has had.
func (s *Session) String() string {
	return "relocation.Session(generation " + strconv.FormatUint(s.Generation(), 10) + ")"
}

// Format is String for every verb: the fields hold messages.
func (s *Session) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// Format keeps the keys out of every verb.
func (o HubOptions) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "relocation.HubOptions(%q, mode %d, %d keys)", o.Name, o.Mode, len(o.Keys))
}

// String leaves the sessions out.
func (m *MemoryStore) String() string { return "relocation.MemoryStore" }

// Format is String for every verb.
func (m *MemoryStore) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, m.String()) }
