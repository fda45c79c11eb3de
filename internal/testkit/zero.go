package testkit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/go-transparency/transparency"
)

// Zero calls every method of v, which no constructor made: a zero value, or a nil pointer. None may
// panic, and every error there is to return or to yield wraps ErrInvalid of the root package. Of the
// methods named in fine it may be nil.
func Zero(ctx context.Context, tb TB, v any, fine ...string) {
	tb.Helper()
	_ = fmt.Sprintf("%v %+v %#v %s", v, v, v, v)
	value := reflect.ValueOf(v)
	for i := range value.NumMethod() {
		method := value.Type().Method(i)
		if method.Name == "Format" { // fmt has called it
			continue
		}
		what := fmt.Sprintf("%s of %T that nobody made", method.Name, v)
		for _, err := range call(ctx, tb, what, value.Method(i)) {
			if err == nil && slices.Contains(fine, method.Name) {
				continue
			}
			if !errors.Is(err, transparency.ErrInvalid) {
				tb.Errorf("%s: error = %v, want ErrInvalid", what, err)
			}
		}
	}
}

var (
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()
)

// call calls f with what it takes, runs the sequences that it returns up to their first element, and
// returns all errors that there were room for.
func call(ctx context.Context, tb TB, what string, f reflect.Value) (errs []error) {
	tb.Helper()
	defer func() {
		if p := recover(); p != nil {
			tb.Errorf("%s panics: %v", what, p)
		}
	}()
	note := func(values []reflect.Value) {
		for _, v := range values {
			if v.Type() == errorType {
				err, _ := v.Interface().(error)
				errs = append(errs, err)
			}
		}
	}
	var args []reflect.Value
	for i := range f.Type().NumIn() {
		args = append(args, argument(ctx, f.Type().In(i), note))
	}
	results := f.Call(args)
	note(results)
	for _, r := range results {
		if r.Kind() == reflect.Func && !r.IsNil() && (r.Type().CanSeq() || r.Type().CanSeq2()) {
			r.Call([]reflect.Value{argument(ctx, r.Type().In(0), note)})
		}
	}
	return errs
}

// argument returns a value to call with. A function notes what it is called with, and returns zeros.
func argument(ctx context.Context, t reflect.Type, note func([]reflect.Value)) reflect.Value {
	switch {
	case t == contextType:
		return reflect.ValueOf(ctx)
	case t.Kind() == reflect.String:
		return reflect.ValueOf("name").Convert(t)
	case t.Kind() == reflect.Func:
		return reflect.MakeFunc(t, func(args []reflect.Value) []reflect.Value {
			note(args)
			var zeros []reflect.Value
			for i := range t.NumOut() {
				zeros = append(zeros, reflect.Zero(t.Out(i)))
			}
			return zeros
		})
	}
	return reflect.Zero(t)
}
