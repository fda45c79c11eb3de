// Limits shows where transparency should end: the same user, read twice from the
// same remote service, once by a function that looks local and once by one that
// says what it is.
//
//	go run ./examples/limits
//
// Which of the eight fallacies of distributed computing (Deutsch, 1994) does the
// first break? All that its signature cannot say: that the network is reliable
// (there is no error), and that latency is zero (there is no limit, and nobody
// can call it off). It also takes for granted that the topology does not change,
// that transport costs nothing, and the rest: bandwidth is infinite, the network
// is secure and homogeneous, there is one administrator.
//
// Why is async/await a deliberate break of transparency, and right? It puts into
// the type of a function that its answer comes later, so that whoever calls it
// has to say what happens meanwhile, and when it does not come. Go has no colors
// of functions; what it has instead is in the signature of the second function:
// a context.Context, by which the caller sets the limit, an error, and a bool for
// "there is none". The packages of this module are like it for that reason.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-transparency/transparency/examples/internal/lab"
)

func main() { lab.Main(run) }

type user struct{ Name string }

// getUser is remote and does not say so. What can it do when there is no answer
// but take longer, or return nothing?
func getUser(url string) *user {
	resp, err := http.Get(url) //nolint:gosec,noctx // that is the point
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var u user
	if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&u) != nil {
		return nil
	}
	return &u
}

// fetchUser is remote: it has a time limit, can fail, and tells that there is no
// such user from not knowing.
func fetchUser(ctx context.Context, url string) (u user, ok bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return user{}, false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return user{}, false, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		err = json.NewDecoder(resp.Body).Decode(&u)
		return u, err == nil, err
	case http.StatusNotFound:
		return user{}, false, nil
	}
	return user{}, false, errors.New("the service answered " + resp.Status)
}

// nameOf is somewhere else in the program, where nobody thinks of the network.
func nameOf(u *user) (name string) {
	defer func() {
		if err := recover(); err != nil {
			name = fmt.Sprint("nothing; and later, elsewhere: ", err)
		}
	}()
	return u.Name
}

func say(u user, ok bool, err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer within 300 ms"
	case err != nil:
		return err.Error()
	case !ok:
		return "there is no such user"
	}
	return u.Name
}

func run(ctx context.Context, env *lab.Env) error {
	service, err := startService(ctx)
	if err != nil {
		return err
	}
	defer service.Close()
	users := []string{"well", "slow", "sick", "nobody"}

	fmt.Fprintln(env.Out, "getUser(id) *user, which looks local:")
	for _, id := range users {
		start := time.Now()
		name := nameOf(getUser(service.URL + "/users/" + id))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(start) > 700*time.Millisecond {
			name += ", most of a second later"
		}
		fmt.Fprintf(env.Out, "  %-6s: %s\n", id, name)
	}
	fmt.Fprintln(env.Out, "fetchUser(ctx, id) (user, bool, error), with a limit of 300 ms:")
	for _, id := range users {
		limited, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		u, ok, err := fetchUser(limited, service.URL+"/users/"+id)
		cancel()
		fmt.Fprintf(env.Out, "  %-6s: %s\n", id, say(u, ok, err))
	}
	return ctx.Err()
}
