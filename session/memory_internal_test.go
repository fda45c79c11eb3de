package session

import (
	"testing"
	"unsafe"
)

// TestMemoryKeepsNoSecret: an id is cut from its token's text, and a store that
// kept it as it is would keep the secret in memory too.
func TestMemoryKeepsNoSecret(t *testing.T) {
	store := NewMemoryStore(nil)
	s, err := NewManager[int](store, nil).New(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	id := s.Token().id()
	e := store.driver.(*memory).sessions[id]
	for key := range store.driver.(*memory).sessions {
		if key != id || unsafe.StringData(key) == unsafe.StringData(id) || unsafe.StringData(e.id) == unsafe.StringData(id) {
			t.Error("the store keeps the text of the token")
		}
	}
}
