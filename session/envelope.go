package session

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
)

// An envelope is what a [Manager] keeps as the data of a session:
//
//	byte 0     0xF5, which begins no text
//	byte 1     the version of this format, 1
//	byte 2-3   the version of the payload's schema, big-endian, 0
//	byte 4-35  the SHA-256 of the token's secret
//	byte 36-   the payload: the JSON of the value
//
// A secret of 192 random bits needs neither salt nor a slow hash.
type envelope struct {
	hash    [sha256.Size]byte
	payload []byte
}

const (
	envelopeMagic  = 0xF5
	envelopeFormat = 1
	envelopeSchema = 0
	envelopeHeader = 4 + sha256.Size
)

func (e envelope) encode() []byte {
	out := make([]byte, 0, envelopeHeader+len(e.payload))
	out = append(out, envelopeMagic, envelopeFormat)
	out = binary.BigEndian.AppendUint16(out, envelopeSchema)
	out = append(out, e.hash[:]...)
	return append(out, e.payload...)
}

// decodeEnvelope returns the envelope in data, which it aliases. What a later
// version wrote is [ErrTooNew]; what none did is [ErrCorrupt].
func decodeEnvelope(data []byte) (envelope, error) {
	if len(data) < 2 || data[0] != envelopeMagic {
		return envelope{}, fmt.Errorf("%w: the data is not that of a Manager", ErrCorrupt)
	}
	switch format := data[1]; {
	case format > envelopeFormat:
		return envelope{}, fmt.Errorf("%w: format %d, known is %d", ErrTooNew, format, envelopeFormat)
	case format < envelopeFormat, len(data) < envelopeHeader:
		return envelope{}, fmt.Errorf("%w: a damaged header", ErrCorrupt)
	}
	if schema := binary.BigEndian.Uint16(data[2:]); schema > envelopeSchema {
		return envelope{}, fmt.Errorf("%w: schema %d, known is %d", ErrTooNew, schema, envelopeSchema)
	}
	e := envelope{payload: data[envelopeHeader:]}
	copy(e.hash[:], data[4:])
	return e, nil
}

// admits reports whether t is the token of this session, in a time that does
// not depend on where they differ.
func (e envelope) admits(t Token) bool {
	hash := t.hash()
	return subtle.ConstantTimeCompare(hash[:], e.hash[:]) == 1
}
