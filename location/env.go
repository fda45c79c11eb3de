package location

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// EnvOptions configures an [Env]. Nil is fine.
type EnvOptions struct {
	// Defaults are the endpoints, in the form of [ParseEndpoints], of services
	// whose variable is not set or empty, by the service's name.
	Defaults map[string]string

	// Lookup finds a variable. Nil means [os.LookupEnv].
	Lookup func(name string) (string, bool)
}

// Env is a Locator that finds services in environment variables. It is safe
// for concurrent use.
type Env struct {
	lookup   func(string) (string, bool)
	defaults map[string]string
	err      error // why no service can be found
}

// NewEnv returns the Locator of the environment. The endpoints of a service are
// in the variable of its name in upper case, with "_" for "-" and ".", and
// "_URL" after it: those of user-service in USER_SERVICE_URL, in the form of
// [ParseEndpoints]. Variables are read by each Resolve.
//
// A service whose variable is not set, and which has no default, is unknown;
// the error names the variable. One whose variable is set and holds nothing
// but commas has no instances. What cannot be read wraps
// [github.com/go-transparency/transparency.ErrInvalid]; the error names the
// variable and never quotes it.
func NewEnv(opts *EnvOptions) *Env {
	e := &Env{lookup: os.LookupEnv, defaults: make(map[string]string)}
	if opts == nil {
		return e
	}
	if opts.Lookup != nil {
		e.lookup = opts.Lookup
	}
	for service, list := range opts.Defaults {
		name, err := CleanService(service)
		if _, ok := e.defaults[name]; ok && err == nil {
			err = invalid("the default of %q is given twice, in two spellings", name)
		}
		if err != nil {
			e.err = err
			continue
		}
		e.defaults[name] = list
	}
	return e
}

// Resolve implements [Locator]. The endpoints are as of now.
func (e *Env) Resolve(ctx context.Context, service string) (Snapshot, error) {
	name, err := CleanService(service)
	if err == nil {
		err = ctx.Err()
	}
	var s Snapshot
	if err == nil {
		s, err = e.find(name)
	}
	if err != nil {
		return s, failed("resolve", name, err)
	}
	return s, nil
}

func (e *Env) find(name string) (Snapshot, error) {
	switch {
	case e == nil || e.lookup == nil:
		return Snapshot{}, errNotMade
	case e.err != nil:
		return Snapshot{}, e.err
	}
	variable := envName(name)
	source := variable
	list, ok := e.lookup(variable)
	if !ok || strings.TrimSpace(list) == "" {
		fallback, ok := e.defaults[name]
		if !ok {
			return Snapshot{}, fmt.Errorf("%w: %s is not set", ErrUnknownService, variable)
		}
		list, source = fallback, "the default"
	}
	endpoints, err := ParseEndpoints(list)
	if err != nil {
		return Snapshot{}, fmt.Errorf("%s: %w", source, err)
	}
	s, err := NewSnapshot(endpoints, time.Now())
	if err == nil && s.Len() == 0 {
		err = ErrNoInstances
	}
	return s, err
}

// envName returns the variable of a service, whose name is clean.
func envName(service string) string {
	return strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(service)) + "_URL"
}
