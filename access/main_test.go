package access_test

import (
	"io"
	"log"
	"net/http"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(int) {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	}))
}

// discardLog takes what servers say of clients that break off on purpose.
var discardLog = log.New(io.Discard, "", 0)
