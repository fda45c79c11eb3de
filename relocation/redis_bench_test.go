package relocation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-transparency/transparency/internal/redistest"
	"github.com/go-transparency/transparency/relocation"
)

// What a message costs in Redis, by how many are committed together.
func BenchmarkRedisStore(b *testing.B) {
	srv := redistest.StartServer(b)
	s := relocation.NewRedisStore(srv.Client(b), nil)
	ctx := b.Context()
	open := func(id string) relocation.Lease {
		c := relocation.Claim{Owner: "a", Lease: time.Hour, Nonce: "n", Principal: "ada"}
		if _, err := s.Create(ctx, id, terms, c); err != nil {
			b.Fatal(err)
		}
		return relocation.Lease{Session: id, Owner: "a", Generation: 1, Duration: time.Hour}
	}
	for _, batch := range []int{1, 8, 64} {
		for _, replies := range []bool{false, true} {
			b.Run(fmt.Sprintf("Commit/%d/replies=%v", batch, replies), func(b *testing.B) {
				id := fmt.Sprint(b.Name(), b.N)
				lease := open(id)
				mark, n := "n", uint64(0)
				b.ResetTimer()
				for i := 0; i < b.N; i += batch {
					u := relocation.Update{In: n + uint64(batch), Mark: fmt.Sprint(i), After: mark}
					if replies {
						u.Acked = n
						for range batch {
							u.Messages = append(u.Messages, make([]byte, 128))
						}
					}
					if _, err := s.Commit(ctx, lease, u); err != nil {
						b.Fatal(err)
					}
					mark, n = u.Mark, u.In
				}
			})
		}
	}
}
