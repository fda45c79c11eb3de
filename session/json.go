package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// SaveJSON stores v as JSON under id for ttl, in place of anything there. It
// is for state that one process hands to another under a name that both know,
// such as a user's; the last writer wins. Who needs more has [Manager].
//
// The session can be neither touched nor saved beyond ttl. In a store that is
// no [Replacer], what is there is deleted first: a reader in between finds
// nothing, of two writers one can fail with [ErrExists], and a failure in
// between leaves nothing. A v that has no JSON, or is null in it, is refused with
// [transparency.ErrInvalid].
func SaveJSON(ctx context.Context, store SessionStore, id string, v any, ttl time.Duration) error {
	data, err := encodeJSON(v)
	if err != nil {
		return opError("save JSON", err)
	}
	if string(data) == "null" {
		return opError("save JSON", invalid("the value is null"))
	}
	if err := checkStore(store); err != nil {
		return opError("save JSON", err)
	}
	lt := Lifetimes{Idle: ttl, Absolute: ttl}
	if r, ok := store.(Replacer); ok {
		_, err = r.Replace(ctx, id, data, lt)
		return err
	}
	// Creating comes first, so that what is refused leaves what is there.
	if _, err = store.Create(ctx, id, data, lt); !errors.Is(err, ErrExists) {
		return err
	}
	if err := store.Delete(ctx, id); err != nil {
		return err
	}
	_, err = store.Create(ctx, id, data, lt)
	return err
}

// LoadJSON returns the value that [SaveJSON] stored under id. If there is
// none, or it has expired, it returns an error wrapping [ErrNotFound]; what is
// there but is not one JSON value of T, or is null, gives [ErrCorrupt] and the
// zero T.
func LoadJSON[T any](ctx context.Context, store SessionStore, id string) (T, error) {
	var zero T
	if err := checkStore(store); err != nil {
		return zero, opError("load JSON", err)
	}
	rec, err := store.Load(ctx, id)
	if err != nil {
		return zero, err
	}
	if string(bytes.TrimSpace(rec.Data)) == "null" {
		return zero, opError("load JSON", fmt.Errorf("%w: the value is null", ErrCorrupt))
	}
	v, err := decodeJSON[T](rec.Data)
	return v, opError("load JSON", err)
}

func encodeJSON(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, invalid("%T has no JSON", v) // err may quote v
	}
	return data, nil
}

// decodeJSON decodes exactly one value into a fresh T, or returns the zero T.
// The texts of its errors hold no part of data.
func decodeJSON[T any](data []byte) (T, error) {
	var v, zero T
	if err := json.Unmarshal(data, &v); err != nil {
		return zero, fmt.Errorf("%w: %s", ErrCorrupt, describeJSON[T](err))
	}
	return v, nil
}

// readBack decodes what is about to be stored: nothing may be that could not
// be read.
func readBack[T any](payload []byte) (T, error) {
	v, err := decodeJSON[T](payload)
	if err != nil {
		return v, invalid("%v has JSON that cannot be read back", reflect.TypeFor[T]())
	}
	return v, nil
}

// describeJSON says what is wrong without the values and names that the errors
// of encoding/json quote.
func describeJSON[T any](err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("no JSON at byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Sprintf("the JSON before byte %d is no %v", kind.Offset, kind.Type)
	}
	return fmt.Sprintf("not the JSON of a %v", reflect.TypeFor[T]())
}
