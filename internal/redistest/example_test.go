package redistest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-transparency/transparency/internal/redistest"
)

func Example() {
	client, done := redistest.Example()
	defer done()
	fmt.Println(client.Ping(context.Background()).Val())
	// Output: PONG
}

func TestExampleStops(t *testing.T) {
	for _, force := range []string{"", "mini"} {
		t.Setenv("TRANSPARENCY_REDIS", force)
		client, done := redistest.Example()
		addr := client.Options().Addr
		done()
		if err := dial(addr); err == nil {
			t.Errorf("the server at %s answers after done", addr)
		}
	}
}
