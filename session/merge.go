package session

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
)

// keepUnknown returns after, the JSON that a program wants to write, with the
// members added that stored has and the program does not know, so that an old
// instance does not drop what a new one added. before is the JSON that the
// program makes of stored without a change: what is not in it is unknown.
//
// Objects in objects are treated alike; elements of arrays have no name to be
// matched by. Names that have no match match without regard to case, as
// encoding/json reads them: two spellings of one member would be read back in
// the wrong order.
func keepUnknown(stored, before, after []byte) []byte {
	if bytes.Equal(stored, before) {
		return after // as it is unless versions mix
	}
	merged, changed := merge(parseJSON(stored), parseJSON(before), parseJSON(after))
	if !changed {
		return after
	}
	var out bytes.Buffer
	merged.write(&out)
	return out.Bytes()
}

// merge does the work of keepUnknown on what was parsed once: to parse each
// object again within those around it would take the square of their depth.
func merge(old, known, now jsonValue) (merged jsonValue, changed bool) {
	if old.members == nil || known.members == nil || now.members == nil {
		return now, false
	}
	knownAt, nowAt := indexOf(known.members), indexOf(now.members)
	for _, m := range old.members {
		was, isKnown := knownAt.find(m.name)
		is, stays := nowAt.find(m.name)
		if isKnown { // and so written in one spelling, before and now
			is, stays = nowAt.exact[known.members[was].name]
		}
		switch {
		case !isKnown && !stays:
			now.members = append(now.members, m)
			changed = true
		case isKnown && stays:
			v, c := merge(m.value, known.members[was].value, now.members[is].value)
			now.members[is].value = v
			changed = changed || c
		}
	}
	if changed {
		now.text = nil
	}
	return now, changed
}

// A jsonValue is a value as its text, or as an object whose members have
// changed since.
type jsonValue struct {
	text    []byte   // nil: the members are to be written
	members []member // of an object, in their order; nil for all else
}

type member struct {
	name  string
	value jsonValue
}

func (v jsonValue) write(out *bytes.Buffer) {
	if v.text != nil {
		out.Write(v.text)
		return
	}
	for i, m := range v.members {
		out.WriteByte("{,"[min(i, 1)])
		name, _ := json.Marshal(m.name) // a string always has JSON
		out.Write(name)
		out.WriteByte(':')
		m.value.write(out)
	}
	out.WriteByte('}')
}

// parseJSON returns the first value in data, or one that is no object.
func parseJSON(data []byte) jsonValue {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, _ := parseNext(dec, data)
	return v
}

// parseNext returns an error, and with it the zero value, at what is no JSON.
func parseNext(dec *json.Decoder, data []byte) (jsonValue, error) {
	from := dec.InputOffset()
	open, err := dec.Token()
	if err != nil {
		return jsonValue{}, err
	}
	var v jsonValue
	if open == json.Delim('{') {
		v.members = []member{}
	}
	if _, nested := open.(json.Delim); nested {
		for dec.More() {
			var m member
			if v.members != nil {
				name, err := dec.Token()
				if err != nil {
					return jsonValue{}, err
				}
				m.name, _ = name.(string) // the decoder takes nothing else there
			}
			if m.value, err = parseNext(dec, data); err != nil {
				return jsonValue{}, err
			}
			if v.members != nil {
				v.members = append(v.members, m)
			}
		}
		if _, err := dec.Token(); err != nil {
			return jsonValue{}, err
		}
	}
	v.text = bytes.TrimLeft(data[from:dec.InputOffset()], " \t\r\n:,")
	return v, nil
}

// An index tells where in a list of members each name is.
type index struct{ exact, folded map[string]int }

func indexOf(list []member) index {
	at := index{make(map[string]int, len(list)), make(map[string]int, len(list))}
	for i, m := range list {
		at.exact[m.name], at.folded[fold(m.name)] = i, i
	}
	return at
}

// find prefers the name as it is: the keys of a map may differ in case alone.
func (at index) find(name string) (int, bool) {
	if i, ok := at.exact[name]; ok {
		return i, true
	}
	i, ok := at.folded[fold(name)]
	return i, ok
}

// fold gives all spellings of a name that encoding/json takes for the same one
// name: of each letter the least of those that differ only in case.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next
			}
			r = next
		}
	}, name)
}
