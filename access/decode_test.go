package access_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/access"
)

func document(data string) access.Document {
	return access.Document{Key: "doc", Data: []byte(data)}
}

// TestDecodeAccepts and TestDecodeRefuses are AC-5 and AC-8.
func TestDecodeAccepts(t *testing.T) {
	type T struct {
		A int
		B map[string]any
	}
	for _, data := range []string{
		`{}`, " \n{ }\t\r\n", "\ufeff{}", "\ufeff \n{}", `{"a":1,"unknown":[{"deep":null}]}`,
		`{"a":1,"b":{"a":1,"b":{"a":1}}}`, `{"b":{"x":[{"y":1},{"y":2}],"y":3}}`, `{"b":{"x":"a","a":"x"}}`, `{"b":{"x":["a","b","a"]}}`,
	} {
		if _, err := access.Decode[T](document(data), nil); err != nil {
			t.Errorf("Decode(%q) error = %v, want nil", data, err)
		}
	}
	if _, err := access.Decode[bool](document("false"), nil); err != nil {
		t.Errorf("Decode(false) error = %v, want nil: false is a document", err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, data := range []string{
		"", " ", "\n\t\r ", "null", " null\n", "\ufeff", "\ufeffnull", "\ufeff\ufeff{}", // AC-5
		"\xff\xfe{\x00}\x00", "\xfe\xff\x00{\x00}", // UTF-16
		`{}{}`, `{} {}`, `{}x`, `{},`, `1 2`, `null null`, // more than one
		`{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `{"b":{"x":{"y":1,"z":[],"y":2}}}`, `{"b":{"x":[1,{"y":1,"y":1}]}}`, // twice
		`{`, `{"a"}`, `{'a':1}`, `{"a":01}`, `{"a":1,}`, `// no`, // no JSON
		"{\"x\":\"\xff\"}", "{\"\xc3\":1}", "{\"b\":{\"x\":\"\xed\xa0\x80\"}}", // no UTF-8
		`{"b":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, // too deep
	} {
		type T struct {
			A int
			B map[string]any
		}
		value, err := access.Decode[*T](document(data), nil)
		if !errors.Is(err, transparency.ErrInvalid) || value != nil {
			t.Errorf("Decode(%.40q) = %v, %v, want nil, ErrInvalid", data, value, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), `access: decode "doc": invalid: `) {
			t.Errorf("Decode(%.40q) error = %q, want operation, key, class", data, err)
		}
	}
}

func TestDecodeUnknownFields(t *testing.T) {
	type inner struct{ B int }
	type T struct{ A inner }
	strict := &access.DecodeOptions{DisallowUnknownFields: true}
	if got, err := access.Decode[T](document(`{"a":{"b":1}}`), strict); err != nil || got.A.B != 1 {
		t.Errorf("Decode, strict, of known fields = %v, %v", got, err)
	}
	for _, data := range []string{`{"a":{"b":1},"hunter2":1}`, `{"a":{"b":1,"hunter2":1}}`} {
		for _, opts := range []*access.DecodeOptions{nil, {}} {
			if got, err := access.Decode[T](document(data), opts); err != nil || got.A.B != 1 {
				t.Errorf("Decode(%q, %+v) = %v, %v, want the known fields", data, opts, got, err)
			}
		}
		got, err := access.Decode[T](document(data), strict)
		if !errors.Is(err, transparency.ErrInvalid) || got != (T{}) {
			t.Errorf("Decode(%q), strict = %v, %v, want zero, ErrInvalid", data, got, err)
		}
		if strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("Decode(%q), strict: error = %q: it quotes the document", data, err)
		}
	}
}

// fussy decodes itself, and its errors quote what they got.
type fussy struct{}

func (*fussy) UnmarshalJSON(data []byte) error { return fmt.Errorf("cannot take %s", data) }

// TestDecodeTypeErrors is AC-6: zero, not half filled, and nothing quoted.
func TestDecodeTypeErrors(t *testing.T) {
	type nested struct{ Port uint8 }
	type T struct {
		Password string
		Port     int
		Nested   nested
		Many     []nested
		By       map[string]nested
		At       time.Time
		Fussy    *fussy
	}
	for _, tt := range []struct{ data, where string }{
		{`{"password":"hunter2","port":"hunter3"}`, "field port of type int"},
		{`{"password":"hunter2","port":3000000000000000000000}`, "field port of type int"},
		{`{"password":"hunter2","port":1.5}`, "field port of type int"},
		{`{"password":"hunter2","nested":{"port":999}}`, "field nested.port of type uint8"},
		{`{"password":"hunter2","nested":{"port":-1}}`, "field nested.port of type uint8"},
		{`{"password":"hunter2","many":[{"port":1},{"port":"hunter3"}]}`, "of type uint8"},
		{`{"password":"hunter2","by":{"hunter3":{"port":"hunter4"}}}`, "of type uint8"},
		{`{"password":"hunter2","at":"hunter3"}`, ""},
		{`{"password":"hunter2","fussy":"hunter3"}`, ""},
		{`["hunter2"]`, "byte 1: a value does not fit type access_test.T"},
		{`"hunter2"`, "type access_test.T"},
	} {
		data := tt.data
		got, err := access.Decode[T](document(data), nil)
		if !errors.Is(err, transparency.ErrInvalid) || got.Password != "" {
			t.Errorf("Decode(%q) = %v, %v, want zero, ErrInvalid", data, got, err)
			continue
		}
		if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(tt.where)) {
			t.Errorf("Decode(%q) error = %q, want it to say %q", data, err, tt.where)
		}
		for _, quoted := range []string{"hunter", "3000", "999", "1.5"} {
			if strings.Contains(err.Error(), quoted) {
				t.Errorf("Decode(%q) error = %q: it quotes the document", data, err)
			}
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(fmt.Sprintf("%v %+v %#v", e, e, e), "hunter") {
				t.Errorf("Decode(%q): an error below quotes the document: %#v", data, e)
			}
		}
	}
}

// TestDecodeIntegers is AC-7.
func TestDecodeIntegers(t *testing.T) {
	type T struct {
		I int64
		U uint64
		A any
	}
	for _, tt := range []struct {
		data string
		want T
	}{
		{`{"i":9007199254740993}`, T{I: 9007199254740993}},
		{`{"i":9223372036854775807}`, T{I: math.MaxInt64}},
		{`{"i":-9223372036854775808}`, T{I: math.MinInt64}},
		{`{"u":18446744073709551615}`, T{U: math.MaxUint64}},
		{`{"a":9007199254740993}`, T{A: json.Number("9007199254740993")}},
		{`{"a":18446744073709551616}`, T{A: json.Number("18446744073709551616")}},
	} {
		if got, err := access.Decode[T](document(tt.data), nil); err != nil || got != tt.want {
			t.Errorf("Decode(%s) = %v, %v, want %v", tt.data, got, err, tt.want)
		}
	}
	for _, data := range []string{
		`{"i":9223372036854775808}`, `{"i":-9223372036854775809}`, `{"u":18446744073709551616}`, `{"u":-1}`, `{"i":1e400}`, `{"i":1.0}`,
	} {
		if got, err := access.Decode[T](document(data), nil); !errors.Is(err, transparency.ErrInvalid) || got != (T{}) {
			t.Errorf("Decode(%s) = %v, %v, want zero, ErrInvalid", data, got, err)
		}
	}
}

// A Load that fails returns nothing of the last one, nor of this one.
func TestLoadKeepsLastGood(t *testing.T) {
	type T struct{ Port int }
	ctx := context.Background()
	repo := access.NewMemory(nil)
	if _, err := repo.Put(ctx, "doc", []byte(`{"port":8080}`), nil); err != nil {
		t.Fatal(err)
	}
	good, _, err := access.Load[T](ctx, repo, "doc")
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{"null", " ", `{"port":"8081"}`} {
		if _, err := repo.Put(ctx, "doc", []byte(data), nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := access.Load[T](ctx, repo, "doc"); !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("Load(%q) error = %v, want ErrInvalid", data, err)
		}
	}
	if good.Port != 8080 {
		t.Errorf("the value loaded before is %v", good)
	}
}

// Names that the type does not have are keys of maps, and so of the document.
func TestFieldPath(t *testing.T) {
	type leaf struct{ Port int }
	type tree struct {
		Left  *tree
		Many  []leaf
		By    map[string][2]leaf
		Other leaf `json:"renamed,omitempty"`
	}
	for path, want := range map[string]string{
		"Left.left.MANY.Port": "Left.left.MANY.Port", "By.hunter2.port": "By.….port", "renamed.port": "renamed.port",
		"hunter2": "…", "by.hunter2.hunter3": "by.….…", "omitempty": "…",
	} {
		if got := access.FieldPath(path, reflect.TypeFor[tree]()); got != want {
			t.Errorf("fieldPath(%q) = %q, want %q", path, got, want)
		}
	}
	if got := access.FieldPath("hunter2.port", reflect.TypeFor[map[string]leaf]()); got != "….port" {
		t.Errorf("fieldPath of a map = %q, want ….port", got)
	}
}

func TestDocumentDoesNotPrintItsData(t *testing.T) {
	doc := access.Document{Key: "doc", Data: []byte("hunter2"), Version: access.Version([]byte("hunter2"))}
	hex, list := "68756e74657232", "104 117 110 116 101 114 50"
	asJSON, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{doc.String(), string(asJSON)}
	if got := fmt.Sprintf("%+v", doc); got != `document "doc" (7 bytes, version `+doc.Version[:12]+`)` {
		t.Errorf("a document prints as %s", got)
	}
	doc.Stale = true
	if got := fmt.Sprint(doc); !strings.HasSuffix(got, ", stale)") {
		t.Errorf("a stale document prints as %s", got)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X"} {
		texts = append(texts, fmt.Sprintf(verb, doc), fmt.Sprintf(verb, &doc), fmt.Sprintf(verb, []access.Document{doc}))
	}
	for _, text := range texts {
		for _, secret := range []string{"hunter2", hex, strings.ToUpper(hex), list, "aHVudGVyMg"} {
			if strings.Contains(text, secret) {
				t.Errorf("a document prints as %q", text)
			}
		}
	}
}

// FuzzCheckJSON holds the checks against encoding/json: they accept nothing
// that it refuses, change nothing but the mark, and do not quote their input.
func FuzzCheckJSON(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, "\ufeff{}", "null", `[1,{"x":"y"}] `, `{"a":{"b":[{}]}}`, "\xff\xfe", `"\ud800"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := access.CheckJSON(data)
		if err != nil {
			if !errors.Is(err, transparency.ErrInvalid) {
				t.Errorf("CheckJSON(%q) error = %v, want ErrInvalid", data, err)
			}
			return
		}
		if !json.Valid(got) || strings.TrimPrefix(string(data), "\ufeff") != string(got) {
			t.Errorf("CheckJSON(%q) = %q", data, got)
		}
		doc := access.Document{Key: "doc", Data: data}
		if _, err := access.Decode[any](doc, nil); err != nil {
			t.Errorf("Decode(%q) error = %v after CheckJSON took it", data, err)
		}
	})
}
