package accesstest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/access"
)

const sample = `{"host": "localhost", "port": 5432}`

func checkGet(tb testing.TB, h Harness) {
	f := h.open(tb, nil, map[string]string{"database": sample, "other": `"x"`})
	before := time.Now()
	doc := f.get(tb, "database")
	if string(doc.Data) != sample || doc.Key != "database" {
		tb.Errorf("Get = key %q, data %q, want %q, %q", doc.Key, doc.Data, "database", sample)
	}
	if want := access.Version([]byte(sample)); doc.Version != want {
		tb.Errorf("Get: Version = %q, want %q", doc.Version, want)
	}
	if doc.FetchedAt.Before(before) || doc.FetchedAt.After(time.Now()) || doc.Stale {
		tb.Errorf("Get: FetchedAt = %v, Stale = %v, want a time during the call, false", doc.FetchedAt, doc.Stale)
	}
}

func checkAbsent(tb testing.TB, h Harness) {
	f := h.open(tb, nil, map[string]string{"database": sample})
	for _, key := range []string{"absent", "databas", "database/x", "a/b/c", "Database2"} {
		doc, err := f.Repo.Get(context.Background(), key)
		if !errors.Is(err, access.ErrNotFound) || class(err) != nil {
			tb.Errorf("Get(%q) error = %v, want ErrNotFound and no class", key, err)
		}
		checkZero(tb, doc)
	}
}

func checkBinary(tb testing.TB, h Harness) {
	var every strings.Builder
	for b := range 256 {
		every.WriteByte(byte(b))
	}
	docs := map[string]string{"every": every.String(), "bom": "\xef\xbb\xbfx\r\n\r\n", "zero": "\x00"}
	f := h.open(tb, nil, docs)
	for key, want := range docs {
		if got := f.get(tb, key); string(got.Data) != want {
			tb.Errorf("Get(%q) = %q, want %q", key, got.Data, want)
		}
	}
}

func checkChanges(tb testing.TB, h Harness) {
	f := h.open(tb, nil, nil)
	for i := range 3 {
		want := fmt.Sprintf(`{"generation": %d}`, i)
		f.Set(tb, "doc", []byte(want))
		if got := f.get(tb, "doc"); string(got.Data) != want {
			tb.Errorf("Get after change %d = %q, want %q", i, got.Data, want)
		}
	}
}

// An empty document is neither an answer nor absent.
func checkEmpty(tb testing.TB, h Harness) {
	f := h.open(tb, nil, map[string]string{"empty": ""})
	doc, err := f.Repo.Get(context.Background(), "empty")
	if !errors.Is(err, transparency.ErrInvalid) || errors.Is(err, access.ErrNotFound) {
		tb.Errorf("Get of an empty document: error = %v, want ErrInvalid and not ErrNotFound", err)
	}
	checkZero(tb, doc)
}

func checkTooLarge(tb testing.TB, h Harness) {
	large := `"` + strings.Repeat("x", 1000) + `"`
	f := h.open(tb, &access.Options{MaxBytes: 1000}, map[string]string{"large": large})
	doc, err := f.Repo.Get(context.Background(), "large")
	if !errors.Is(err, access.ErrTooLarge) || !errors.Is(err, transparency.ErrInvalid) {
		tb.Errorf("Get of %d bytes, limit 1000: error = %v, want ErrTooLarge and ErrInvalid", len(large), err)
	}
	checkZero(tb, doc)
}

func checkExactLimit(tb testing.TB, h Harness) {
	f := h.open(tb, &access.Options{MaxBytes: 1000}, map[string]string{"exact": strings.Repeat("7", 1000), "more": strings.Repeat("7", 1001)})
	if got := f.get(tb, "exact"); len(got.Data) != 1000 {
		tb.Errorf("Get of 1000 bytes, limit 1000: got %d bytes", len(got.Data))
	}
	if _, err := f.Repo.Get(context.Background(), "more"); !errors.Is(err, access.ErrTooLarge) {
		tb.Errorf("Get of 1001 bytes, limit 1000: error = %v, want ErrTooLarge", err)
	}
}

func checkEndedContext(tb testing.TB, h Harness) {
	f := h.open(tb, nil, map[string]string{"database": sample})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	doc, err := f.Repo.Get(ctx, "database")
	if !errors.Is(err, context.Canceled) || errors.Is(err, transparency.ErrUncertain) {
		tb.Errorf("Get, ctx canceled: error = %v, want context.Canceled and not ErrUncertain", err)
	}
	checkZero(tb, doc)
}

// checkConcurrent is AC-22: every Get returns one complete generation.
func checkConcurrent(tb testing.TB, h Harness) {
	generation := func(i int) string {
		return `"` + strings.Repeat(string(rune('a'+i%26)), 2000) + `"`
	}
	complete := make(map[string]bool)
	for i := range 26 {
		complete[generation(i)] = true
	}
	f := h.open(tb, &access.Options{Timeout: time.Minute}, map[string]string{"doc": generation(0)})

	done := make(chan struct{})
	var writer, readers sync.WaitGroup
	writer.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-done:
				return
			default:
				f.Set(tb, "doc", []byte(generation(i)))
			}
		}
	})
	for range 1000 {
		readers.Go(func() {
			doc, err := f.Repo.Get(context.Background(), "doc")
			if err != nil || !complete[string(doc.Data)] || doc.Version != access.Version(doc.Data) {
				tb.Errorf("Get during changes = %.20q…, %v, want a complete generation", doc.Data, err)
			}
		})
	}
	readers.Wait()
	close(done)
	writer.Wait()
}

func checkCopiesOut(tb testing.TB, h Harness) {
	f := h.open(tb, nil, map[string]string{"database": sample})
	doc := f.get(tb, "database")
	for i := range doc.Data {
		doc.Data[i] = '!'
	}
	_ = append(doc.Data, '!')
	if got := f.get(tb, "database"); string(got.Data) != sample {
		tb.Errorf("Get after the last result was overwritten = %q, want %q", got.Data, sample)
	}
}

func checkErrorText(tb testing.TB, h Harness) {
	f := h.open(tb, &access.Options{MaxBytes: 64}, map[string]string{"large": `"` + strings.Repeat("secret", 20) + `"`})
	for _, key := range []string{"large", "absent", strings.Repeat("absent/", 50) + "x", "../up"} {
		_, err := f.Repo.Get(context.Background(), key)
		if err == nil {
			tb.Fatalf("Get(%q) error = nil, want one", key)
		}
		if want := fmt.Sprintf("access: get %q: ", key); !strings.HasPrefix(err.Error(), want) {
			tb.Errorf("Get(%q) error = %q, want it to begin with %q", key, err, want)
		}
		if strings.Contains(err.Error(), "secret") {
			tb.Errorf("Get(%q) error = %q: it quotes the document", key, err)
		}
	}
}

func checkClose(tb testing.TB, h Harness) {
	f := h.open(tb, nil, map[string]string{"database": sample})
	c, ok := f.Repo.(io.Closer)
	if !ok {
		tb.Skip("no io.Closer")
	}
	for range 2 {
		if err := c.Close(); err != nil {
			tb.Errorf("Close() error = %v, want nil", err)
		}
	}
	if _, err := f.Repo.Get(context.Background(), "database"); !errors.Is(err, access.ErrClosed) {
		tb.Errorf("Get after Close: error = %v, want ErrClosed", err)
	}
	if _, err := access.Put(context.Background(), f.Repo, "database", []byte("1"), nil); !errors.Is(err, access.ErrClosed) {
		tb.Errorf("Put after Close: error = %v, want ErrClosed", err)
	}
}

func checkZero(tb testing.TB, doc access.Document) {
	tb.Helper()
	if doc.Key != "" || doc.Data != nil || doc.Version != "" || !doc.FetchedAt.IsZero() || doc.Stale {
		tb.Errorf("with an error the document is %v, want zero", doc)
	}
}

// class returns the class of err, or nil.
func class(err error) error {
	for _, class := range []error{
		transparency.ErrUnavailable, transparency.ErrUncertain, transparency.ErrRejected,
		transparency.ErrDenied, transparency.ErrInvalid,
	} {
		if errors.Is(err, class) {
			return class
		}
	}
	return nil
}
