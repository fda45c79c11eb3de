// Package accesstest checks that an [access.ConfigRepository] keeps what the
// package promises. The backends of package access pass it, and so can one of
// your own: give [Run] a [Harness] that makes it.
//
//	accesstest.Run(t, accesstest.Harness{
//		New: func(tb testing.TB, opts *access.Options) accesstest.Fixture {
//			driver := newBackend(tb)
//			return accesstest.Fixture{Repo: access.New(driver, opts), Set: driver.set}
//		},
//	})
package accesstest

import (
	"context"
	"testing"

	"github.com/go-transparency/transparency/access"
)

// A Harness makes the repositories under test and says what they can do.
type Harness struct {
	// New returns an empty repository with these options; each check has its
	// own. What it needs is released by the cleanup of tb.
	New func(tb testing.TB, opts *access.Options) Fixture
	// Members says that the documents are members of one JSON text: each has
	// to be a JSON value, and MaxBytes bounds them together.
	Members bool
	// Writes says that the repository is an [access.Writer] that can write.
	Writes bool
}

// A Fixture is one repository under test and the way to its documents.
type Fixture struct {
	Repo access.ConfigRepository
	// Set stores a document, in one atomic step, without the repository: its
	// limits do not hold here. It may be called concurrently with Get.
	Set func(tb testing.TB, key string, data []byte)
}

// Run runs all checks, each as a subtest.
func Run(t *testing.T, h Harness) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			if c.skip != nil && c.skip(h) {
				t.Skip("not for this backend")
			}
			c.run(t, h)
		})
	}
}

// A check is one promise. Its name says which.
type check struct {
	name string
	run  func(testing.TB, Harness)
	skip func(Harness) bool
}

var checks = []check{
	{"Get", checkGet, nil},
	{"GetAbsent", checkAbsent, nil},
	{"GetBinary", checkBinary, Harness.members},
	{"GetSeesChanges", checkChanges, nil},
	{"GetEmpty", checkEmpty, Harness.members},
	{"GetTooLarge", checkTooLarge, nil},
	{"GetExactLimit", checkExactLimit, Harness.members},
	{"GetEndedContext", checkEndedContext, nil},
	{"GetConcurrently", checkConcurrent, nil},
	{"InvalidKeys", checkInvalidKeys, nil},
	{"ValidKeys", checkValidKeys, nil},
	{"CopiesOut", checkCopiesOut, nil},
	{"ErrorText", checkErrorText, nil},
	{"Load", checkLoad, nil},
	{"LoadRefuses", checkLoadRefuses, nil},
	{"Close", checkClose, nil},
	{"Put", checkPut, Harness.readOnly},
	{"PutIfAbsent", checkPutIfAbsent, Harness.readOnly},
	{"PutIfVersion", checkPutIfVersion, Harness.readOnly},
	{"PutRefuses", checkPutRefuses, Harness.readOnly},
	{"PutCopiesIn", checkCopiesIn, Harness.readOnly},
	{"PutConcurrently", checkCounter, Harness.readOnly},
	{"PutUnsupported", checkUnsupported, func(h Harness) bool { return h.Writes }},
}

func (h Harness) members() bool  { return h.Members }
func (h Harness) readOnly() bool { return !h.Writes }

// open returns a repository that holds the documents.
func (h Harness) open(tb testing.TB, opts *access.Options, docs map[string]string) Fixture {
	tb.Helper()
	f := h.New(tb, opts)
	for key, data := range docs {
		f.Set(tb, key, []byte(data))
	}
	return f
}

// get fails the check at once when there is no document.
func (f Fixture) get(tb testing.TB, key string) access.Document {
	tb.Helper()
	doc, err := f.Repo.Get(context.Background(), key)
	if err != nil {
		tb.Fatalf("Get(%q) error = %v, want a document", key, err)
	}
	return doc
}
