package relocation

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
)

// A token is what a client shows to resume a session: which session, the
// generation in which the token was made, and a MAC over both and the
// principal. Only hubs read it; to clients it is a row of bytes.
//
//	format (1)  key id (4)  generation (8, big endian)  session id  MAC (32)
const (
	tokenFormat = 1
	tokenHead   = 1 + 4 + 8
	tokenMAC    = sha256.Size
	tokenLabel  = "go-transparency relocation token" //nolint:gosec // no secret: so that no other use of a key makes the same MAC
)

// A tokenKey is a key with its name.
type tokenKey struct {
	id  [4]byte
	key []byte
}

func newTokenKeys(keys [][]byte) []tokenKey {
	if len(keys) == 0 {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		keys = [][]byte{key}
	}
	var all []tokenKey
	for _, key := range keys {
		sum := sha256.Sum256(append([]byte(tokenLabel+" key id"), key...))
		all = append(all, tokenKey{[4]byte(sum[:4]), append([]byte{}, key...)})
	}
	return all
}

// makeToken signs with the first key.
func makeToken(keys []tokenKey, session string, generation uint64, principal string) []byte {
	b := make([]byte, 0, tokenHead+len(session)+tokenMAC)
	b = append(b, tokenFormat)
	b = append(b, keys[0].id[:]...)
	b = binary.BigEndian.AppendUint64(b, generation)
	b = append(b, session...)
	return append(b, keys[0].mac(b, principal)...)
}

// readToken returns what a token says, and whether one of the keys made it for
// that principal.
func readToken(keys []tokenKey, token []byte, principal string) (session string, generation uint64, ok bool) {
	if len(token) <= tokenHead+tokenMAC || token[0] != tokenFormat {
		return "", 0, false
	}
	said, mac := token[:len(token)-tokenMAC], token[len(token)-tokenMAC:]
	for _, k := range keys {
		if [4]byte(said[1:5]) == k.id && hmac.Equal(mac, k.mac(said, principal)) {
			return string(said[tokenHead:]), binary.BigEndian.Uint64(said[5:tokenHead]), true
		}
	}
	return "", 0, false
}

// mac is over parts of which only the last has no fixed length or none before
// it: the length of what the token says goes in front.
func (k tokenKey) mac(said []byte, principal string) []byte {
	h := hmac.New(sha256.New, k.key)
	h.Write([]byte(tokenLabel))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(said))))
	h.Write(said)
	h.Write([]byte(principal))
	return h.Sum(nil)
}
