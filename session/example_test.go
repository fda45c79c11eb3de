package session_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-transparency/transparency/session"
)

// Cart is what a shop keeps per visitor.
type Cart struct {
	User  string   `json:"user,omitempty"`
	Items []string `json:"items"`
}

// A session is created, found again by its token, and changed.
func ExampleManager() {
	ctx := context.Background()
	carts := session.NewManager[Cart](session.NewMemoryStore(nil), nil)

	s, err := carts.New(ctx, Cart{})
	if err != nil {
		fmt.Println(err)
		return
	}
	cookie := s.Token().Reveal() // for the client alone

	s, err = carts.Get(ctx, cookie)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err = carts.Update(ctx, s, func(c *Cart) error {
		c.Items = append(c.Items, "book")
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Value.Items, s.Token())
	// Output: [book] [redacted]
}

// An instance saves a session under a name that both know and is gone; another
// goes on with it.
func Example() {
	ctx := context.Background()
	store := session.NewMemoryStore(nil) // session.NewRedisStore(client, nil) for more than one process

	if err := session.SaveJSON(ctx, store, "user_42", Cart{Items: []string{"book"}}, time.Hour); err != nil {
		fmt.Println(err)
		return
	}
	cart, err := session.LoadJSON[Cart](ctx, store, "user_42")
	fmt.Println(cart.Items, err)

	_, err = session.LoadJSON[Cart](ctx, store, "user_43")
	fmt.Println(errors.Is(err, session.ErrNotFound))
	// Output:
	// [book] <nil>
	// true
}

// Two requests of one user change the cart at the same time. Neither undoes
// the other, although both began with the same empty cart.
func ExampleManager_Update() {
	ctx := context.Background()
	carts := session.NewManager[Cart](session.NewMemoryStore(nil), nil)
	s, _ := carts.New(ctx, Cart{})

	for _, item := range []string{"book", "pen"} { // both from the same s
		_, err := carts.Update(ctx, s, func(c *Cart) error {
			c.Items = append(c.Items, item)
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	s, _ = carts.Get(ctx, s.Token().Reveal())
	fmt.Println(s.Value.Items)
	// Output: [book pen]
}

// At login the token is renewed, so that one that was planted before is worth
// nothing.
func ExampleManager_Renew() {
	ctx := context.Background()
	client, done := redisClient() // a redis.NewClient of your own
	defer done()
	carts := session.NewManager[Cart](session.NewRedisStore(client, nil), nil)
	guest, _ := carts.New(ctx, Cart{Items: []string{"book"}})

	user, err := carts.Renew(ctx, guest)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = carts.Get(ctx, guest.Token().Reveal())
	fmt.Println("old token:", errors.Is(err, session.ErrNotFound))
	user, err = carts.Get(ctx, user.Token().Reveal())
	fmt.Println("new token:", user.Value.Items, err)
	// Output:
	// old token: true
	// new token: [book] <nil>
}

// Save refuses what was decided on data that has changed since.
func ExampleMemoryStore() {
	ctx := context.Background()
	store := session.NewMemoryStore(nil)
	lives := session.Lifetimes{Idle: time.Hour, Absolute: 8 * time.Hour}

	first, _ := store.Create(ctx, "user_42", []byte("1"), lives)
	second, _ := store.Save(ctx, "user_42", []byte("2"), first.Version)
	_, err := store.Save(ctx, "user_42", []byte("3"), first.Version)
	fmt.Println(err)

	rec, _ := store.Load(ctx, "user_42")
	fmt.Println(string(rec.Data), rec.Version == second.Version)
	// Output:
	// session: save: conflict
	// 2 true
}

// What one instance saved, another reads.
func ExampleRedisStore() {
	ctx := context.Background()
	client, done := redisClient()
	defer done()

	instanceA := session.NewRedisStore(client, nil)
	cart := Cart{User: "ada", Items: []string{"book", "pen"}}
	if err := session.SaveJSON(ctx, instanceA, "user_42", cart, time.Hour); err != nil {
		fmt.Println(err)
		return
	}

	instanceB := session.NewRedisStore(client, nil) // in another process, with a client of its own
	got, err := session.LoadJSON[Cart](ctx, instanceB, "user_42")
	fmt.Println(got.User, got.Items, err)
	// Output: ada [book pen] <nil>
}

// That there is no session and that it cannot be known are two answers.
func ExampleLoadJSON() {
	ctx := context.Background()
	store := session.NewMemoryStore(nil)

	_, err := session.LoadJSON[Cart](ctx, store, "user_42")
	switch {
	case errors.Is(err, session.ErrNotFound):
		fmt.Println("no cart yet")
	case err != nil:
		fmt.Println("try later:", err)
	}
	// Output: no cart yet
}
