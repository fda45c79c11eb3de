package accesstest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/access"
)

func (f Fixture) put(tb testing.TB, key, data string, opts *access.PutOptions) string {
	tb.Helper()
	version, err := access.Put(context.Background(), f.Repo, key, []byte(data), opts)
	if err != nil {
		tb.Fatalf("Put(%q, %q, %+v) error = %v, want nil", key, data, opts, err)
	}
	if want := access.Version([]byte(data)); version != want {
		tb.Errorf("Put(%q, %q, %+v) = version %q, want %q", key, data, opts, version, want)
	}
	return version
}

func (f Fixture) wantConflict(tb testing.TB, key string, opts *access.PutOptions) {
	tb.Helper()
	version, err := access.Put(context.Background(), f.Repo, key, []byte(`"not to be stored"`), opts)
	if !errors.Is(err, access.ErrConflict) || class(err) != nil || version != "" {
		tb.Errorf("Put(%q, %+v) = %q, %v, want ErrConflict and no class", key, opts, version, err)
	}
}

func (f Fixture) wantData(tb testing.TB, key, want string) {
	tb.Helper()
	if got := f.get(tb, key); string(got.Data) != want {
		tb.Errorf("Get(%q) = %q, want %q", key, got.Data, want)
	}
}

func checkPut(tb testing.TB, h Harness) {
	f := h.open(tb, nil, map[string]string{"other": `"other"`})
	for _, data := range []string{"1", `"longer than the first"`, "2", "2", sample} {
		f.put(tb, "doc", data, nil)
		f.wantData(tb, "doc", data)
	}
	f.wantData(tb, "other", `"other"`)
}

func checkPutIfAbsent(tb testing.TB, h Harness) {
	f := h.open(tb, nil, nil)
	absent := &access.PutOptions{IfAbsent: true}
	f.put(tb, "doc", "1", absent)
	f.wantConflict(tb, "doc", absent)
	f.wantData(tb, "doc", "1")
	if _, err := access.Put(context.Background(), f.Repo, "doc", []byte("1"), absent); !errors.Is(err, access.ErrConflict) {
		tb.Errorf("Put of the bytes that are stored, IfAbsent: error = %v, want ErrConflict", err)
	}
}

func checkPutIfVersion(tb testing.TB, h Harness) {
	f := h.open(tb, nil, map[string]string{"doc": "1"})
	first := f.get(tb, "doc").Version
	f.wantConflict(tb, "absent", &access.PutOptions{IfVersion: first})
	f.wantConflict(tb, "absent", &access.PutOptions{IfVersion: access.Version(nil)})
	f.wantConflict(tb, "doc", &access.PutOptions{IfVersion: "no version"})
	second := f.put(tb, "doc", "2", &access.PutOptions{IfVersion: first})
	f.wantConflict(tb, "doc", &access.PutOptions{IfVersion: first})
	f.wantData(tb, "doc", "2")
	if _, err := access.Put(context.Background(), f.Repo, "doc", []byte("2"), &access.PutOptions{IfVersion: first}); !errors.Is(err, access.ErrConflict) {
		tb.Errorf("Put of the bytes that are stored, IfVersion of those before: error = %v, want ErrConflict", err)
	}
	f.put(tb, "doc", "1", &access.PutOptions{IfVersion: second})
	f.put(tb, "doc", "3", &access.PutOptions{IfVersion: first}) // valid again: a version stands for content
	f.wantData(tb, "doc", "3")
}

func checkPutRefuses(tb testing.TB, h Harness) {
	f := h.open(tb, &access.Options{MaxBytes: 10}, map[string]string{"doc": "1"})
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tt := range []struct {
		name, data string
		ctx        context.Context
		opts       *access.PutOptions
		want       error
	}{
		{"both conditions", "2", context.Background(), &access.PutOptions{IfAbsent: true, IfVersion: "x"}, transparency.ErrInvalid},
		{"empty", "", context.Background(), nil, transparency.ErrInvalid},
		{"too large", strings.Repeat("2", 11), context.Background(), nil, access.ErrTooLarge},
		{"ended context", "2", ended, nil, context.Canceled},
	} {
		version, err := access.Put(tt.ctx, f.Repo, "doc", []byte(tt.data), tt.opts)
		if !errors.Is(err, tt.want) || errors.Is(err, transparency.ErrUncertain) || version != "" {
			tb.Errorf("Put, %s: %q, %v, want %v", tt.name, version, err, tt.want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), `access: put "doc": `) {
			tb.Errorf(`Put, %s: error = %q, want it to begin with access: put "doc":`, tt.name, err)
		}
	}
	f.wantData(tb, "doc", "1")
	f.put(tb, "doc", strings.Repeat("2", 10), nil)
}

func checkCopiesIn(tb testing.TB, h Harness) {
	f := h.open(tb, nil, nil)
	data := []byte(sample)
	if _, err := access.Put(context.Background(), f.Repo, "doc", data, nil); err != nil {
		tb.Fatalf("Put error = %v, want nil", err)
	}
	clear(data)
	f.wantData(tb, "doc", sample)
}

// checkCounter loses no update, although writers that read the same number
// write the same bytes.
func checkCounter(tb testing.TB, h Harness) {
	const writers, each = 4, 10
	f := h.open(tb, &access.Options{Timeout: time.Minute}, map[string]string{"n": "0"})
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for done := 0; done < each; {
				n, doc, err := access.Load[int](context.Background(), f.Repo, "n")
				if err != nil {
					tb.Errorf("Load error = %v, want nil", err)
					return
				}
				_, err = access.Put(context.Background(), f.Repo, "n", strconv.AppendInt(nil, int64(n+1), 10),
					&access.PutOptions{IfVersion: doc.Version})
				switch {
				case err == nil:
					done++
				case !errors.Is(err, access.ErrConflict):
					tb.Errorf("Put error = %v, want nil or ErrConflict", err)
					return
				}
			}
		})
	}
	wg.Wait()
	f.wantData(tb, "n", strconv.Itoa(writers*each))
}

func checkUnsupported(tb testing.TB, h Harness) {
	f := h.open(tb, nil, map[string]string{"doc": "1"})
	_, err := access.Put(context.Background(), f.Repo, "doc", []byte("2"), nil)
	if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, transparency.ErrInvalid) {
		tb.Errorf("Put error = %v, want errors.ErrUnsupported and ErrInvalid", err)
	}
	f.wantData(tb, "doc", "1")
}
