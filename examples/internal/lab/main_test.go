package lab_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-transparency/transparency/examples/internal/lab"
	"github.com/go-transparency/transparency/examples/internal/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m, program) }

// program stands for all example programs in the tests of this package.
func program(ctx context.Context, env *lab.Env) error {
	if len(env.Args) == 0 {
		return errors.New("no argument:\nsecond line")
	}
	switch env.Args[0] {
	case "print":
		_, err := fmt.Fprintln(env.Out, env.Args[1:])
		return err
	case "flood": // prints without end, until it is told that nobody reads
		for ctx.Err() == nil {
			fmt.Fprintln(env.Out, "line")
		}
		return ctx.Err()
	case "fail":
		return errors.New("this process failed: check nothing")
	case "die":
		fmt.Fprint(env.Out, "last words")
		os.Exit(7)
	case "wait":
		return wait(ctx, env, "child")
	case "beside": // says two lines, and one more when it is asked to end
		fmt.Fprintf(env.Out, "%v\nsecond\n", env.Args[1:])
		<-ctx.Done()
		fmt.Fprintln(env.Out, "asked")
	case "secret":
		secret, err := env.Secret(ctx)
		if err == nil {
			fmt.Fprintf(env.Out, "%x\n", secret)
		}
		return err
	case "stubborn": // does not listen to its context
		fmt.Fprintln(env.Out, "stubborn", os.Getpid())
		time.Sleep(time.Minute)
	case "key":
		client, err := env.Redis(ctx)
		if err != nil {
			return err
		}
		return client.Set(ctx, env.Prefix()+env.Args[1], "x", time.Minute).Err()
	case "run": // key, then the children that the arguments name
		client, err := env.Redis(ctx)
		if err != nil {
			return err
		}
		if err := client.Set(ctx, env.Prefix()+"parent", "x", time.Minute).Err(); err != nil {
			return err
		}
		fmt.Fprintln(env.Out, "parent", os.Getpid())
		if err := env.Processes(ctx, env.Args[1:]...); err != nil {
			return err
		}
		return client.Get(ctx, env.Prefix()+"child").Err() // the same server, the same prefix
	case "start": // a process that runs beside this one
		if _, err := env.Redis(ctx); err != nil {
			return err
		}
		p, err := env.Start(ctx, env.Args[1])
		if err != nil {
			return err
		}
		defer p.Close()
		fmt.Fprintln(env.Out, p.Said)
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// wait says that it is there and waits for its end.
func wait(ctx context.Context, env *lab.Env, name string) error {
	client, err := env.Redis(ctx)
	if err != nil {
		return err
	}
	if err := client.Set(ctx, env.Prefix()+name, "x", time.Minute).Err(); err != nil {
		return err
	}
	fmt.Fprintln(env.Out, name, os.Getpid())
	<-ctx.Done()
	return ctx.Err()
}
