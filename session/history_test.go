package session_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/go-transparency/transparency/session"
)

type (
	op struct {
		kind    string
		version session.Version // save: the one expected
		data    string
	}
	result struct {
		err     error // a sentinel, or nil
		version session.Version
		data    string
	}
	state struct { // of one session; no version: absent
		version session.Version
		data    string
	}
)

// model is what SessionStore promises of one id, one call at a time.
var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, in, out any) (bool, any) {
		now, op, got := s.(state), in.(op), out.(result)
		there := now.version != ""
		switch {
		case op.kind == "create" && there:
			return got.err == session.ErrExists, now
		case op.kind == "create":
			return got.err == nil && got.version != "", state{got.version, op.data}
		case op.kind == "delete":
			return got.err == nil, state{}
		case !there:
			return got.err == session.ErrNotFound, now
		case op.kind == "load":
			return got.err == nil && got.version == now.version && got.data == now.data, now
		case op.kind == "touch":
			return got.err == nil && got.version == now.version, now
		case op.version != now.version:
			return got.err == session.ErrConflict, now
		default:
			return got.err == nil && got.version != now.version, state{got.version, op.data}
		}
	},
}

func sentinel(t *testing.T, err error) error {
	for _, s := range []error{session.ErrNotFound, session.ErrExists, session.ErrConflict} {
		if errors.Is(err, s) {
			return s
		}
	}
	if err != nil {
		t.Errorf("error = %v, want an answer", err)
	}
	return err
}

// TestHistories: what concurrent clients see of one session is what they could
// have seen one after the other.
func TestHistories(t *testing.T) {
	for name, open := range map[string]func(*testing.T) session.SessionStore{"memory": openMemory, "redis": openRedis} {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			for round := range uint64(20) {
				history := record(t, store, string(rune('a'+round)), round)
				if res := porcupine.CheckOperationsTimeout(model, history, 10*time.Second); res != porcupine.Ok {
					t.Fatalf("seed %d: the history is %v, want Ok", round, res)
				}
			}
		})
	}
}

// record runs a few clients on one session and returns what they did and saw.
func record(t *testing.T, store session.SessionStore, id string, seed uint64) []porcupine.Operation {
	const clients, steps = 4, 12
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex // guards history
		history []porcupine.Operation
		start   = time.Now()
	)
	for client := range clients {
		rnd := rand.New(rand.NewPCG(seed, uint64(client)))
		wg.Go(func() {
			var last session.Version = "none"
			for step := range steps {
				in := op{version: last, data: string([]byte{byte('A' + client), byte('a' + step)})}
				in.kind = []string{"create", "load", "load", "save", "save", "save", "touch", "delete"}[rnd.IntN(8)]
				call := time.Since(start).Nanoseconds()
				rec, err := do(t, store, id, in)
				back := time.Since(start).Nanoseconds()
				if err == nil && in.kind != "delete" {
					last = rec.Version
				}
				mu.Lock()
				history = append(history, porcupine.Operation{
					ClientId: client, Input: in, Call: call, Return: back,
					Output: result{sentinel(t, err), rec.Version, string(rec.Data)},
				})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return history
}

func do(t *testing.T, store session.SessionStore, id string, in op) (session.Record, error) {
	ctx := t.Context()
	switch in.kind {
	case "create":
		return store.Create(ctx, id, []byte(in.data), hour)
	case "load":
		return store.Load(ctx, id)
	case "save":
		return store.Save(ctx, id, []byte(in.data), in.version)
	case "touch":
		return store.Touch(ctx, id)
	default:
		return session.Record{}, store.Delete(ctx, id)
	}
}

// TestModel: the checker can fail. In this history a save is lost.
func TestModel(t *testing.T) {
	history := []porcupine.Operation{
		{Input: op{kind: "create", data: "0"}, Output: result{version: "1"}, Call: 0, Return: 1},
		{Input: op{kind: "save", version: "1", data: "a"}, Output: result{version: "2"}, Call: 2, Return: 5},
		{Input: op{kind: "save", version: "1", data: "b"}, Output: result{version: "3"}, Call: 3, Return: 6, ClientId: 1},
		{Input: op{kind: "load"}, Output: result{version: "3", data: "b"}, Call: 7, Return: 8},
	}
	if porcupine.CheckOperations(model, history) {
		t.Error("a history with a lost save passes")
	}
}
