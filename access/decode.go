package access

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// Load gets the document stored under key and decodes its JSON, strictly, into
// a fresh T; see [Decode]. It returns the document as well, for its version
// and age. The error of a document that cannot be decoded is of class
// [transparency.ErrInvalid]; the others are those of Get. With an error, both
// values are zero.
func Load[T any](ctx context.Context, repo ConfigRepository, key string) (T, Document, error) {
	var zero T
	doc, err := repo.Get(ctx, key)
	if err != nil {
		return zero, Document{}, err
	}
	value, err := Decode[T](doc, nil)
	if err != nil {
		return zero, Document{}, err
	}
	return value, doc, nil
}

// DecodeOptions vary [Decode]. Nil and the zero value mean the defaults.
type DecodeOptions struct {
	// DisallowUnknownFields refuses a document that has a member for which
	// the type has no field. By default such members are skipped, so that a
	// document can be extended before the programs that read it.
	DisallowUnknownFields bool
}

// Decode decodes the JSON of doc into a fresh T, by the rules of
// [encoding/json] and these, under which a document that was damaged on its
// way is refused and not half understood:
//
//   - it is one JSON text in UTF-8, with or without a byte order mark. Empty,
//     blank, a bare null, and anything after the end are refused;
//   - no object has the same name twice, at any depth;
//   - integers are exact. What does not fit a field of an integer type is
//     refused; in a field of type any a number is a [json.Number], not a
//     float64.
//
// The error is of class [transparency.ErrInvalid] and its text holds no byte
// of the document: it says where the fault is and which field and type of T it
// concerns. With an error the value is zero, not partly filled.
func Decode[T any](doc Document, opts *DecodeOptions) (T, error) {
	var zero, value T
	data, err := checkJSON(doc.Data)
	if err != nil {
		return zero, opError("decode", doc.Key, err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if opts != nil && opts.DisallowUnknownFields {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(&value); err != nil {
		return zero, opError("decode", doc.Key, decodeError(err, reflect.TypeFor[T]()))
	}
	return value, nil
}

// decodeError tells a fault of a valid JSON text in words of ours: those of
// encoding/json, and of the types that decode themselves, quote the document.
func decodeError(err error, into reflect.Type) error {
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch) && mismatch.Field != "":
		return invalid("JSON: a value does not fit field %s of type %v", fieldPath(mismatch.Field, into), mismatch.Type)
	case errors.As(err, &mismatch):
		return invalid("JSON at byte %d: a value does not fit type %v", mismatch.Offset, mismatch.Type)
	default:
		return invalid("JSON: a type refused its value, or a member is unknown")
	}
}

// fieldPath returns path with only those names that the type has: encoding/json
// over its second version (GOEXPERIMENT=jsonv2) puts the keys of maps in it.
func fieldPath(path string, t reflect.Type) string {
	known := make(map[string]bool)
	fieldNames(t, known, make(map[reflect.Type]bool))
	names := strings.Split(path, ".")
	for i, name := range names {
		if !known[strings.ToLower(name)] {
			names[i] = "…"
		}
	}
	return strings.Join(names, ".")
}

// fieldNames adds the names of all fields below t, in lower case.
func fieldNames(t reflect.Type, names map[string]bool, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		fieldNames(t.Elem(), names, seen)
	case reflect.Struct:
		for i := range t.NumField() {
			field := t.Field(i)
			tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			names[strings.ToLower(field.Name)] = true
			names[strings.ToLower(tag)] = true
			fieldNames(field.Type, names, seen)
		}
	}
}
