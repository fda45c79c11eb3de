package lock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-transparency/transparency/lock"
)

// One of all processes that run this is the leader, and another when it has
// gone. What the leader writes has the fence of its leadership.
func ExampleRunLeader() {
	locker := lock.NewMemory(nil) // or lock.NewRedis(client, nil)
	defer locker.Close()

	ctx, stop := context.WithCancel(context.Background()) // or signal.NotifyContext
	err := lock.RunLeader(ctx, locker.Mutex("reports", nil), nil, func(ctx context.Context, fence uint64) error {
		fmt.Println("leading, with a fence:", fence != 0)
		stop() // someone wants this process to end
		<-ctx.Done()
		return nil // when the leadership was lost, it is called again once it leads again
	})
	fmt.Println(err)
	// Output:
	// leading, with a fence: true
	// <nil>
}

// A Leader can be watched: for a page of health, or a metric.
func ExampleLeader_Changes() {
	ctx := context.Background()
	locker := lock.NewMemory(nil)
	defer locker.Close()

	leader := lock.NewLeader(locker.Mutex("reports", nil), nil)
	changes := leader.Changes(ctx)
	go leader.Run(ctx, func(context.Context, uint64) error { return errors.New("no paper") })

	for c := range changes {
		fmt.Println(c.State, c.Err)
		if c.Err != nil {
			break
		}
	}
	// Output:
	// idle <nil>
	// campaigning <nil>
	// leading <nil>
	// idle no paper
}
