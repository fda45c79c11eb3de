package redistest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/redistest"
)

func TestClusterServesEverySlot(t *testing.T) {
	c := redistest.StartCluster(t)
	client := c.Client(t)
	for i := range 300 {
		key := fmt.Sprintf("%s%d", c.Prefix(), i)
		set(t, client, key, "v", 0)
		if got := get(t, client, key); got != "v" {
			t.Fatalf("GET %s = %q, want %q", key, got, "v")
		}
	}
	used := make(chan int64, 3)
	err := client.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		n, err := node.DBSize(ctx).Result()
		used <- n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	close(used)
	nodes := 0
	for n := range used {
		if n > 0 {
			nodes++
		}
	}
	if nodes != 3 {
		t.Errorf("300 keys are on %d nodes, want 3", nodes)
	}
	n, err := redis.NewScript(`return redis.call('INCR', KEYS[1]) + redis.call('INCR', KEYS[2])`).
		Run(t.Context(), client, []string{"{a}1", "{a}2"}).Int()
	if err != nil || n != 2 {
		t.Errorf("script over two keys of one slot = %d, %v, want 2", n, err)
	}
}
