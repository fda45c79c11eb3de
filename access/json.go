package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// checkJSON returns data without its byte order mark when it is one strict
// JSON text: UTF-8, neither empty nor null, no name twice in one object,
// nothing after the end. Its errors hold no byte of data.
func checkJSON(data []byte) ([]byte, error) {
	if bytes.HasPrefix(data, []byte("\xfe\xff")) || bytes.HasPrefix(data, []byte("\xff\xfe")) {
		return nil, invalid("JSON in UTF-16, not UTF-8")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	switch text := bytes.TrimSpace(data); {
	case len(text) == 0:
		return nil, invalid("JSON: the document is empty")
	case string(text) == "null":
		return nil, invalid("JSON: the document is null")
	case !utf8.Valid(text):
		return nil, invalid("JSON that is not UTF-8")
	}
	if !json.Valid(data) {
		var raw json.RawMessage
		var syntax *json.SyntaxError
		if errors.As(json.Unmarshal(data, &raw), &syntax) {
			return nil, invalid("no JSON: the syntax breaks at byte %d of %d", syntax.Offset, len(data))
		}
		return nil, invalid("no JSON")
	}
	return data, checkNames(data)
}

// checkNames refuses a name that stands twice in one object: encoding/json
// takes the last one, others the first. Requires valid JSON.
func checkNames(data []byte) error {
	type level struct {
		object bool
		value  bool // of an object: the name was read, its value comes next
		names  map[string]bool
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	stack := []level{{}}
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return invalid("no JSON: the syntax breaks at byte %d of %d", dec.InputOffset(), len(data))
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			stack = stack[:len(stack)-1]
			continue
		}
		top := &stack[len(stack)-1]
		if name, ok := token.(string); ok && top.object && !top.value {
			if top.names[name] {
				return invalid("JSON at byte %d: a name stands twice in one object", dec.InputOffset())
			}
			if top.names == nil {
				top.names = make(map[string]bool)
			}
			top.names[name] = true
			top.value = true
			continue
		}
		top.value = false
		if token == json.Delim('{') || token == json.Delim('[') {
			stack = append(stack, level{object: token == json.Delim('{')})
		}
	}
}

// member returns the value of a top-level member of a strict JSON object, byte
// for byte, or [ErrNotFound].
func member(data []byte, name string) ([]byte, error) {
	data, err := checkJSON(data)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, invalid("the JSON is no object")
	}
	value, ok := members[name]
	if !ok {
		return nil, ErrNotFound
	}
	return value, nil
}
