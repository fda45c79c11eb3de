package relocation

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
)

// A vector is one entry of testdata/frames.json: frames as a client in any
// language must write and read them.
type vector struct {
	Name   string         `json:"name"`
	Hex    string         `json:"hex"`
	Kind   string         `json:"kind,omitempty"`
	Fields map[string]any `json:"fields,omitempty"`
	Wrong  string         `json:"wrong,omitempty"` // why it is malformed
}

func vectors(tb testing.TB) []vector {
	tb.Helper()
	data, err := os.ReadFile("testdata/frames.json")
	if err != nil {
		tb.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(data, &all); err != nil {
		tb.Fatal(err)
	}
	return all
}

// samples are the values behind the well-formed vectors.
var samples = []struct {
	name string
	kind kind
	want any
}{
	{"hello", kindHello, opening{MinVersion: 1, MaxVersion: 1, MaxMessage: 1 << 20, Window: 1 << 20, Credentials: []byte("let me in")}},
	{"hello without credentials", kindHello, opening{MinVersion: 1, MaxVersion: 3, Features: 5, MaxMessage: 128, Window: 4096}},
	{"welcome", kindWelcome, opened{
		Version: 1, Token: []byte("token-1"), Generation: 1, Resume: 2 * time.Minute, Ping: 15 * time.Second, Silence: 10 * time.Second,
		MaxMessage: 1 << 20, Window: 1 << 20, Server: []byte("a"),
	}},
	{"resume", kindResume, opening{
		MinVersion: 1, MaxVersion: 1, MaxMessage: 1 << 20, Window: 1 << 20, Token: []byte("token-1"), Attempt: 2, Received: 20, Acked: 7,
	}},
	{"resumed", kindResumed, opened{
		Version: 1, Token: []byte("token-2"), Generation: 2, In: 9, Out: 1 << 53, Resume: 2 * time.Minute, Ping: 15 * time.Second, Silence: 10 * time.Second,
		MaxMessage: 1 << 20, Window: 1 << 20, Server: []byte("b"),
	}},
	{"reject: unknown session", kindReject, reject{Code: rejectUnknown, Text: "unknown session"}},
	{"reject: expired, handled up to 7", kindReject, reject{Code: rejectExpired, HandledKnown: true, Handled: 7, Text: "session expired"}},
	{"reject: busy for a second", kindReject, reject{Code: rejectBusy, Retry: time.Second}},
	{"reject: moved", kindReject, reject{Code: rejectMoved, Locations: []string{"ws://b.example/x", "ws://c.example/x"}}},
	{"data", kindData, sampleData{1, 0, "one"}},
	{"data: acknowledge now, again, empty", kindData, sampleData{300, dataAckNow | dataAgain, ""}},
	{"data: the last number", kindData, sampleData{maxSeq, 0, "end"}},
	{"ack", kindAck, uint64(64)},
	{"ping", kindPing, uint64(1)},
	{"pong", kindPong, uint64(1)},
	{"goaway", kindGoAway, goAway{Deadline: 30 * time.Second, Spread: 10 * time.Second, Locations: []string{"ws://b.example/x"}}},
	{"goaway: final", kindGoAway, goAway{Final: true, In: 12}},
	{"bye", kindBye, uint64(12)},
	{"fin", kindFin, uint64(12)},
	{"close", kindClose, closing{Code: closeDone}},
	{"close: regressed", kindClose, closing{Code: closeRegressed, Text: "the store went back"}},
}

type sampleData struct {
	Seq, Flags uint64
	Payload    string
}

func encode(k kind, v any) []byte {
	switch v := v.(type) {
	case opening:
		return appendOpening(nil, v)
	case opened:
		return appendOpened(nil, k, v)
	case reject:
		return appendReject(nil, v)
	case sampleData:
		return appendData(nil, v.Seq, v.Flags, []byte(v.Payload))
	case goAway:
		return appendGoAway(nil, v)
	case closing:
		return appendClosing(nil, v)
	case uint64:
		return appendNumber(nil, k, v)
	}
	panic(fmt.Sprintf("no encoder for %T", v))
}

func decode(k kind, body []byte) (any, error) {
	switch k {
	case kindHello, kindResume:
		return parseOpening(k, body)
	case kindWelcome, kindResumed:
		return parseOpened(body)
	case kindReject:
		return parseReject(body)
	case kindData:
		seq, flags, payload, err := parseData(body)
		return sampleData{seq, flags, string(payload)}, err
	case kindGoAway:
		return parseGoAway(body)
	case kindClose:
		return parseClosing(body)
	case kindAck, kindPing, kindPong, kindBye, kindFin:
		return parseNumber(body)
	}
	return nil, fmt.Errorf("%w: unknown kind", ErrProtocol)
}

var kindNames = map[kind]string{
	kindHello: "HELLO", kindWelcome: "WELCOME", kindResume: "RESUME", kindResumed: "RESUMED", kindReject: "REJECT",
	kindData: "DATA", kindAck: "ACK", kindPing: "PING", kindPong: "PONG", kindGoAway: "GOAWAY", kindBye: "BYE", kindFin: "FIN", kindClose: "CLOSE",
}

// describe returns the fields of a frame as the vectors name them.
func describe(t *testing.T, k kind, v any) map[string]any {
	t.Helper()
	fields := map[string]any{}
	if rv := reflect.ValueOf(v); rv.Kind() == reflect.Struct {
		for i := range rv.NumField() {
			name := strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(rv.Type().Field(i).Name, "${1}_$2"))
			switch x := rv.Field(i).Interface().(type) {
			case time.Duration:
				fields[name+"_ms"] = x.Milliseconds()
			case []byte:
				fields[name] = string(x)
			case []string:
				fields[name] = append([]string{}, x...)
			default:
				fields[name] = x
			}
		}
	} else {
		fields["number"] = v
	}
	if k == kindHello {
		for _, name := range []string{"token", "attempt", "received", "acked"} {
			delete(fields, name)
		}
	}
	text, err := json.Marshal(fields)
	if err == nil {
		fields = nil
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// The vectors are what the code writes, and what it reads again.
func TestVectors(t *testing.T) {
	byName := map[string]vector{}
	for _, v := range vectors(t) {
		if v.Wrong == "" {
			byName[v.Name] = v
		}
	}
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			v, ok := byName[s.name]
			if !ok {
				t.Fatalf("no such vector; the code writes %x", encode(s.kind, s.want))
			}
			delete(byName, s.name)
			if got := hex.EncodeToString(encode(s.kind, s.want)); got != v.Hex {
				t.Errorf("encoded\n%s, want\n%s", got, v.Hex)
			}
			if want := describe(t, s.kind, s.want); !reflect.DeepEqual(v.Fields, want) || v.Kind != kindNames[s.kind] {
				t.Errorf("described as %s %v, want %s %v", v.Kind, v.Fields, kindNames[s.kind], want)
			}
			raw, err := hex.DecodeString(v.Hex)
			if err != nil {
				t.Fatal(err)
			}
			k, body, rest, err := nextFrame(raw)
			if err != nil || k != s.kind || len(rest) != 0 {
				t.Fatalf("nextFrame = %#x with %d bytes left, %v; want %#x", k, len(rest), err, s.kind)
			}
			got, err := decode(k, body)
			if err != nil || !reflect.DeepEqual(emptied(got), emptied(s.want)) {
				t.Errorf("decoded %+v, %v; want %+v", got, err, s.want)
			}
			// A later version may add fields.
			got, err = decode(k, append(bytes.Clone(body), 1))
			if k != kindData && (err != nil || !reflect.DeepEqual(emptied(got), emptied(s.want))) {
				t.Errorf("with a field more: %+v, %v; want %+v", got, err, s.want)
			}
		})
	}
	for name := range byName {
		t.Errorf("vector %q is tested by nothing", name)
	}
}

// emptied makes nil and empty byte strings alike: the wire knows no nil.
func emptied(v any) any {
	switch v := v.(type) {
	case opening:
		v.Credentials, v.Token = append([]byte{}, v.Credentials...), append([]byte{}, v.Token...)
		return v
	case opened:
		v.Token, v.Server = append([]byte{}, v.Token...), append([]byte{}, v.Server...)
		return v
	}
	return v
}

func TestMalformedVectors(t *testing.T) {
	n := 0
	for _, v := range vectors(t) {
		if v.Wrong == "" {
			continue
		}
		n++
		t.Run(v.Name, func(t *testing.T) {
			raw, err := hex.DecodeString(v.Hex)
			if err != nil {
				t.Fatal(err)
			}
			k, body, _, err := nextFrame(raw)
			if err == nil {
				_, err = decode(k, body)
			}
			if !errors.Is(err, ErrProtocol) || !errors.Is(err, transparency.ErrInvalid) {
				t.Errorf("error = %v, want ErrProtocol: %s", err, v.Wrong)
			}
		})
	}
	if n == 0 {
		t.Error("no malformed vector")
	}
}

func FuzzFrames(f *testing.F) {
	for _, v := range vectors(f) {
		if raw, err := hex.DecodeString(v.Hex); err == nil {
			f.Add(raw)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			k, body, rest, err := nextFrame(b)
			if err != nil {
				if !errors.Is(err, ErrProtocol) {
					t.Fatalf("nextFrame error = %v, want ErrProtocol", err)
				}
				return
			}
			if len(rest) >= len(b) {
				t.Fatal("nextFrame makes no progress")
			}
			v, err := decode(k, body)
			switch {
			case err != nil && !errors.Is(err, ErrProtocol):
				t.Fatalf("decode error = %v, want ErrProtocol", err)
			case err == nil:
				_, again, _, err := nextFrame(encode(k, v))
				if err != nil {
					t.Fatalf("nextFrame of what was encoded: %v", err)
				}
				if w, err := decode(k, again); err != nil || !reflect.DeepEqual(emptied(v), emptied(w)) {
					t.Fatalf("%+v became %+v, %v", v, w, err)
				}
			}
			b = rest
		}
	})
}
