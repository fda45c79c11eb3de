package accesstest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/access"
)

func checkLoad(tb testing.TB, h Harness) {
	type database struct {
		Host string
		Port int
	}
	f := h.open(tb, nil, map[string]string{"database": sample})
	got, doc, err := access.Load[database](context.Background(), f.Repo, "database")
	if want := (database{"localhost", 5432}); err != nil || got != want {
		tb.Errorf("Load = %v, %v, want %v", got, err, want)
	}
	if doc.Key != "database" || string(doc.Data) != sample || doc.Version != access.Version(doc.Data) {
		tb.Errorf("Load: document = %v, want that of Get", doc)
	}
	if _, _, err := access.Load[database](context.Background(), f.Repo, "absent"); !errors.Is(err, access.ErrNotFound) {
		tb.Errorf("Load of an absent document: error = %v, want ErrNotFound", err)
	}
}

// checkLoadRefuses has the part of AC-5 and AC-6 that does not depend on how
// the bytes came.
func checkLoadRefuses(tb testing.TB, h Harness) {
	type settings struct {
		Port     int
		Password string
	}
	docs := map[string]string{
		"null":  "null",
		"list":  `["hunter2"]`,
		"wrong": `{"password": "hunter2", "port": "8080"}`,
	}
	if !h.Members {
		docs["blank"] = " \r\n\t"
		docs["broken"] = `{"password": "hunter2"`
		docs["twice"] = `{"password": "hunter2", "password": "hunter3"}`
		docs["two"] = `{"password": "hunter2"}{}`
		docs["utf16"] = "\xff\xfe{\x00}\x00"
	}
	f := h.open(tb, nil, docs)
	for key := range docs {
		got, doc, err := access.Load[settings](context.Background(), f.Repo, key)
		if !errors.Is(err, transparency.ErrInvalid) || errors.Is(err, access.ErrNotFound) {
			tb.Errorf("Load(%q) error = %v, want ErrInvalid", key, err)
		}
		if got != (settings{}) {
			tb.Errorf("Load(%q) filled its value in spite of the error", key)
		}
		if err != nil && strings.Contains(err.Error(), "hunter") {
			tb.Errorf("Load(%q) error = %q: it quotes the document", key, err)
		}
		checkZero(tb, doc)
	}
}
