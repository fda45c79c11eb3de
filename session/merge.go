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
	old, ok := members(stored)
	known, ok2 := members(before)
	now, ok3 := members(after)
	if !ok || !ok2 || !ok3 {
		return after
	}
	knownAt, nowAt := indexOf(known), indexOf(now)
	changed := false
	for _, m := range old {
		was, isKnown := knownAt.find(m.name)
		is, stays := nowAt.find(m.name)
		if isKnown { // and so written in one spelling, before and now
			is, stays = nowAt.exact[known[was].name]
		}
		switch {
		case !isKnown && !stays:
			now = append(now, m)
			changed = true
		case isKnown && stays:
			merged := keepUnknown(m.value, known[was].value, now[is].value)
			changed = changed || !bytes.Equal(merged, now[is].value)
			now[is].value = merged
		}
	}
	if !changed {
		return after
	}
	var out bytes.Buffer
	for i, m := range now {
		out.WriteByte("{,"[min(i, 1)])
		name, _ := json.Marshal(m.name) // a string always has JSON
		out.Write(name)
		out.WriteByte(':')
		out.Write(m.value)
	}
	out.WriteByte('}')
	return out.Bytes()
}

type member struct {
	name  string
	value json.RawMessage
}

// members returns the members of a JSON object in their order, and whether
// data is one.
func members(data []byte) ([]member, bool) {
	if data = bytes.TrimSpace(data); len(data) == 0 || data[0] != '{' {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		return nil, false
	}
	var list []member
	for dec.More() {
		name, err := dec.Token()
		text, ok := name.(string)
		if err != nil || !ok {
			return nil, false
		}
		m := member{name: text}
		if err := dec.Decode(&m.value); err != nil {
			return nil, false
		}
		list = append(list, m)
	}
	return list, true
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
