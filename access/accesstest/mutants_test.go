package accesstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/access"
)

// document changes what a right Get returns.
func document(change func(*access.Document)) func(context.Context, string, getFunc) (access.Document, error) {
	return func(ctx context.Context, key string, get getFunc) (access.Document, error) {
		doc, err := get(ctx, key)
		if err == nil {
			change(&doc)
		}
		return doc, err
	}
}

// failure changes the error of a right Get.
func failure(change func(error) error) func(context.Context, string, getFunc) (access.Document, error) {
	return func(ctx context.Context, key string, get getFunc) (access.Document, error) {
		doc, err := get(ctx, key)
		if err != nil {
			err = change(err)
		}
		return doc, err
	}
}

// renamed asks for another key.
func renamed(change func(string) string) func(context.Context, string, getFunc) (access.Document, error) {
	return func(ctx context.Context, key string, get getFunc) (access.Document, error) {
		doc, err := get(ctx, change(key))
		if err == nil {
			doc.Key = key
		}
		return doc, err
	}
}

// cached remembers the first document of each key, and hands out the same bytes.
func cached() func(context.Context, string, getFunc) (access.Document, error) {
	var seen sync.Map
	return func(ctx context.Context, key string, get getFunc) (access.Document, error) {
		if doc, ok := seen.Load(key); ok {
			return doc.(access.Document), nil
		}
		doc, err := get(ctx, key)
		if err == nil {
			seen.Store(key, doc)
		}
		return doc, err
	}
}

func unconditional(ctx context.Context, key string, data []byte, _ *access.PutOptions, r *broken) (string, error) {
	return r.Repository.Put(ctx, key, data, nil)
}

// once takes each version for a condition only once.
func once() func(context.Context, string, []byte, *access.PutOptions, *broken) (string, error) {
	var used sync.Map
	return func(ctx context.Context, key string, data []byte, opts *access.PutOptions, r *broken) (string, error) {
		if opts != nil && opts.IfVersion != "" {
			if _, again := used.Load(opts.IfVersion); again {
				return "", fmt.Errorf("access: put %q: %w", key, access.ErrConflict)
			}
		}
		version, err := r.Repository.Put(ctx, key, data, opts)
		if err == nil && opts != nil {
			used.Store(opts.IfVersion, true)
		}
		return version, err
	}
}

var mutants = []mutant{
	{check: "Get", fault: "another version", get: document(func(d *access.Document) { d.Version = "1" })},
	{check: "Get", fault: "no key", get: document(func(d *access.Document) { d.Key = "" })},
	{check: "Get", fault: "a time to come", get: document(func(d *access.Document) { d.FetchedAt = time.Now().Add(time.Hour) })},
	{check: "Get", fault: "no time", get: document(func(d *access.Document) { d.FetchedAt = time.Time{} })},
	{check: "Get", fault: "fresh passes for stale", get: document(func(d *access.Document) { d.Stale = true })},
	{check: "GetAbsent", fault: "absent is no error", get: failure(func(error) error { return nil })},
	{check: "GetAbsent", fault: "absent is unavailable", get: failure(func(err error) error {
		return fmt.Errorf("%w: %w", transparency.ErrUnavailable, err)
	})},
	{check: "GetAbsent", fault: "case does not matter", get: renamed(func(key string) string {
		return strings.TrimSuffix(strings.ToLower(key), "2")
	})},
	{check: "GetAbsent", fault: "a document beside the error", get: func(ctx context.Context, key string, get getFunc) (access.Document, error) {
		doc, err := get(ctx, key)
		doc.Key = key
		return doc, err
	}},
	{check: "GetBinary", fault: "space is trimmed", get: document(func(d *access.Document) { d.Data = bytes.TrimSpace(d.Data) })},
	{check: "GetBinary", fault: "the byte order mark is gone", get: document(func(d *access.Document) {
		d.Data = bytes.TrimPrefix(d.Data, []byte("\ufeff"))
	})},
	{check: "GetSeesChanges", fault: "a cache", get: cached()},
	{check: "GetEmpty", fault: "empty is absent", get: failure(func(error) error { return access.ErrNotFound })},
	{check: "GetTooLarge", fault: "no limit", opts: func(o *access.Options) { o.MaxBytes = -1 }},
	{check: "GetExactLimit", fault: "one byte less", opts: func(o *access.Options) { o.MaxBytes-- }},
	{check: "GetExactLimit", fault: "one byte more", opts: func(o *access.Options) { o.MaxBytes++ }},
	{check: "GetEndedContext", fault: "the context is ignored", get: func(ctx context.Context, key string, get getFunc) (access.Document, error) {
		return get(context.WithoutCancel(ctx), key)
	}},
	{check: "GetConcurrently", fault: "torn documents", get: document(func(d *access.Document) { d.Data = d.Data[:len(d.Data)/2] })},
	{check: "InvalidKeys", fault: "dots are cleaned", get: renamed(func(key string) string { return strings.ReplaceAll(key, "..", "a") })},
	{check: "InvalidKeys", fault: "slashes are trimmed", get: renamed(func(key string) string { return strings.Trim(key, "/") })},
	{check: "InvalidKeys", fault: "an invalid key is just absent", get: failure(func(error) error { return access.ErrNotFound })},
	{check: "ValidKeys", fault: "a key is escaped", get: renamed(func(key string) string { return strings.ReplaceAll(key, " ", "+") })},
	{check: "CopiesOut", fault: "the same bytes again", get: cached()},
	{check: "ErrorText", fault: "no key", get: failure(errors.Unwrap)},
	{check: "ErrorText", fault: "the document in the error", get: failure(func(err error) error { return fmt.Errorf("%w: secret", err) })},
	{check: "Load", fault: "an object without members", get: document(func(d *access.Document) { d.Data = []byte("{}") })},
	{check: "LoadRefuses", fault: "null becomes an object", get: document(func(d *access.Document) {
		d.Data = bytes.Replace(d.Data, []byte("null"), []byte("{}"), 1)
	})},
	{check: "Close", fault: "it does not end", noClose: true},
	{check: "Put", fault: "nothing is stored", put: func(_ context.Context, _ string, data []byte, _ *access.PutOptions, _ *broken) (string, error) {
		return access.Version(data), nil
	}},
	{check: "Put", fault: "only the first is stored", put: func(ctx context.Context, key string, data []byte, _ *access.PutOptions, r *broken) (string, error) {
		_, _ = r.Repository.Put(ctx, key, data, &access.PutOptions{IfAbsent: true})
		return access.Version(data), nil
	}},
	{check: "Put", fault: "another version", put: func(ctx context.Context, key string, data []byte, opts *access.PutOptions, r *broken) (string, error) {
		_, err := r.Repository.Put(ctx, key, data, opts)
		return "1", err
	}},
	{check: "PutIfAbsent", fault: "conditions are ignored", put: unconditional},
	{check: "PutIfVersion", fault: "conditions are ignored", put: unconditional},
	{check: "PutIfVersion", fault: "the same bytes are no conflict", put: func(ctx context.Context, key string, data []byte, opts *access.PutOptions, r *broken) (string, error) {
		if doc, err := r.Repository.Get(ctx, key); err == nil && bytes.Equal(doc.Data, data) {
			return doc.Version, nil
		}
		return r.Repository.Put(ctx, key, data, opts)
	}},
	{check: "PutIfVersion", fault: "a version is valid once", put: once()},
	{check: "PutIfVersion", fault: "absent suits any version", put: func(ctx context.Context, key string, data []byte, opts *access.PutOptions, r *broken) (string, error) {
		if _, err := r.Repository.Get(ctx, key); errors.Is(err, access.ErrNotFound) {
			opts = nil
		}
		return r.Repository.Put(ctx, key, data, opts)
	}},
	{check: "PutIfAbsent", fault: "the same bytes are no conflict", put: func(ctx context.Context, key string, data []byte, opts *access.PutOptions, r *broken) (string, error) {
		if doc, err := r.Repository.Get(ctx, key); err == nil && bytes.Equal(doc.Data, data) {
			return doc.Version, nil
		}
		return r.Repository.Put(ctx, key, data, opts)
	}},
	{check: "PutRefuses", fault: "the context is ignored", put: func(ctx context.Context, key string, data []byte, opts *access.PutOptions, r *broken) (string, error) {
		return r.Repository.Put(context.WithoutCancel(ctx), key, data, opts)
	}},
	{check: "PutRefuses", fault: "no limit", opts: func(o *access.Options) { o.MaxBytes = -1 }},
	{check: "PutRefuses", fault: "one of two conditions", put: func(ctx context.Context, key string, data []byte, opts *access.PutOptions, r *broken) (string, error) {
		if opts != nil && opts.IfAbsent {
			opts = &access.PutOptions{IfAbsent: true}
		}
		return r.Repository.Put(ctx, key, data, opts)
	}},
	{check: "PutCopiesIn", fault: "the caller's bytes are kept", put: func(ctx context.Context, key string, data []byte, _ *access.PutOptions, r *broken) (string, error) {
		return access.Version(data), r.driver.Store(ctx, key, data, access.PutOptions{})
	}},
	{check: "PutConcurrently", fault: "compare and set in two steps", put: func(ctx context.Context, key string, data []byte, opts *access.PutOptions, r *broken) (string, error) {
		doc, err := r.Repository.Get(ctx, key)
		if err == nil && doc.Version != opts.IfVersion {
			err = access.ErrConflict
		}
		if err != nil {
			return "", err
		}
		time.Sleep(time.Millisecond) // the fault is the gap
		return r.Repository.Put(ctx, key, data, nil)
	}},
	{check: "PutConcurrently", fault: "the same bytes are no conflict", put: func(ctx context.Context, key string, data []byte, opts *access.PutOptions, r *broken) (string, error) {
		time.Sleep(time.Millisecond) // so that writers meet
		version, err := r.Repository.Put(ctx, key, data, opts)
		if doc, getErr := r.Repository.Get(ctx, key); getErr == nil && bytes.Equal(doc.Data, data) {
			return doc.Version, nil
		}
		return version, err
	}},
	{check: "PutUnsupported", fault: "it can write"},
}
