package relocation_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/relocation"
)

// sessionOf stands for the *Session that a handler is given.
type sessionOf string

func (s sessionOf) ID() string       { return string(s) }
func (sessionOf) Generation() uint64 { return 1 }

// A handler sells one piece for each message, once, although the message comes
// twice.
func ExampleRedisPosition() {
	client, done := redistest.Example()
	defer done()
	position := relocation.NewRedisPosition(client, &relocation.RedisPositionOptions{Tag: "shop"})
	sell := func(ctx context.Context, s relocation.Ownership, m relocation.Message) error {
		_, err := position.Run(ctx, s, m.Seq, `return redis.call('INCR', KEYS[1])`, []string{"{shop}:sold"}, nil)
		return err
	}

	ctx := context.Background()
	fmt.Println(sell(ctx, sessionOf("ada's"), relocation.Message{Seq: 1}))
	again := sell(ctx, sessionOf("ada's"), relocation.Message{Seq: 1, Redelivered: true})
	fmt.Println(errors.Is(again, relocation.ErrDuplicate))
	fmt.Println(client.Get(ctx, "{shop}:sold").Val(), "sold")
	// Output:
	// <nil>
	// true
	// 1 sold
}
