package relocation

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-transparency/transparency"
)

// networkPipe returns both ends of a transport to "a".
func networkPipe(t *testing.T, n *Network) (client, server Transport) {
	t.Helper()
	accepted := make(chan Transport, 1)
	stop := n.Listen("a", func(ctx context.Context, s Transport) {
		accepted <- s
		<-ctx.Done()
	})
	t.Cleanup(stop)
	client, err := n.Dial(t.Context(), "a")
	if err != nil {
		t.Fatalf("Dial error = %v, want nil", err)
	}
	return client, <-accepted
}

func networkRead(t *testing.T, tr Transport, want string) {
	t.Helper()
	if got, err := tr.Read(t.Context()); string(got) != want || err != nil {
		t.Fatalf("Read = %q, %v, want %q", got, err, want)
	}
}

func networkWrite(t *testing.T, tr Transport, text string) {
	t.Helper()
	if err := tr.Write(t.Context(), []byte(text)); err != nil {
		t.Fatalf("Write error = %v, want nil", err)
	}
}

func TestNetworkCarriesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := networkPipe(t, NewNetwork())
		go func() {
			for i := range 1000 {
				if err := client.Write(context.Background(), fmt.Append(nil, i)); err != nil {
					t.Errorf("Write error = %v, want nil", err)
				}
			}
		}()
		for i := range 1000 {
			networkRead(t, server, fmt.Sprint(i))
		}
		networkWrite(t, server, "")
		networkRead(t, client, "")
	})
}

func TestNetworkDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		n.Delay("a", ToClient, 30*time.Millisecond)
		start := time.Now()
		client, server := networkPipe(t, n)
		if d := time.Since(start); d != 30*time.Millisecond {
			t.Errorf("Dial took %v, want 30ms", d)
		}
		start = time.Now()
		networkWrite(t, server, "1")
		n.Delay("a", ToClient, 0)
		networkWrite(t, server, "2")
		networkRead(t, client, "1")
		networkRead(t, client, "2")
		if d := time.Since(start); d != 30*time.Millisecond {
			t.Errorf("the messages took %v, want 30ms, in order", d)
		}
	})
}

// TestNetworkFreeze shows what a frozen path is like: writes succeed, nothing
// comes, a Close is not noticed, and nothing was lost when it thaws.
func TestNetworkFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		client, server := networkPipe(t, n)
		n.Freeze("a", ToServer)
		networkWrite(t, client, "late")
		client.Close(CloseRestart, "bye")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := server.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Read error = %v, want the context's", err)
		}
		networkWrite(t, server, "lost")
		n.Thaw("a", ToServer)
		networkRead(t, server, "late")
		var closed *CloseError
		if _, err := server.Read(t.Context()); !errors.As(err, &closed) || closed.Code != CloseRestart || closed.Reason != "bye" {
			t.Errorf("Read error = %v, want the code and the reason", err)
		}
		if _, err := client.Read(t.Context()); !errors.Is(err, transparency.ErrUnavailable) {
			t.Errorf("Read after Close error = %v, want ErrUnavailable", err)
		}
		if err := client.Write(t.Context(), nil); !errors.Is(err, transparency.ErrUnavailable) {
			t.Errorf("Write after Close error = %v, want ErrUnavailable", err)
		}
	})
}

func TestNetworkIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		client, server := networkPipe(t, n)
		n.Freeze("a", ToServer)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		messages := 0
		for client.Write(ctx, make([]byte, 1<<20)) == nil {
			messages++
		}
		if messages != 4 {
			t.Errorf("%d MiB were taken, want 4", messages)
		}
		n.Thaw("a", ToServer)
		go func() { _, _ = server.Read(context.Background()) }()
		if err := client.Write(t.Context(), nil); err != nil {
			t.Errorf("Write error = %v, want nil once there is room", err)
		}
	})
}

func TestNetworkCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		client, server := networkPipe(t, n)
		n.CutAfter("a", ToServer, 2)
		for i := range 3 {
			networkWrite(t, client, fmt.Sprint(i))
		}
		networkRead(t, server, "0")
		networkRead(t, server, "1")
		for _, end := range []Transport{client, server} {
			if _, err := end.Read(t.Context()); !errors.Is(err, transparency.ErrUnavailable) {
				t.Errorf("Read error = %v, want ErrUnavailable", err)
			}
			if err := end.Write(t.Context(), nil); !errors.Is(err, transparency.ErrUnavailable) {
				t.Errorf("Write error = %v, want ErrUnavailable", err)
			}
		}
		client, _ = networkPipe(t, n)
		n.Cut("a")
		if _, err := client.Read(t.Context()); !errors.Is(err, transparency.ErrUnavailable) {
			t.Errorf("Read error = %v, want ErrUnavailable", err)
		}
	})
}

func TestNetworkDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(Network)
		refused := func(why string) {
			t.Helper()
			if _, err := n.Dial(t.Context(), "a"); !errors.Is(err, transparency.ErrUnavailable) {
				t.Errorf("Dial to an address %s: %v, want ErrUnavailable", why, err)
			}
		}
		refused("without a listener")
		stop := n.Listen("a", func(ctx context.Context, _ Transport) { <-ctx.Done() })
		n.Refuse("a", true)
		refused("that refuses")
		n.Refuse("a", false)
		n.Hang("a", true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Dial(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Dial to an address that hangs: %v, want the context's error", err)
		}
		go func() {
			time.Sleep(time.Second)
			n.Hang("a", false)
		}()
		client, err := n.Dial(t.Context(), "a")
		if err != nil {
			t.Fatalf("Dial error = %v, want nil once it hangs no more", err)
		}
		stop()
		stop()
		if _, err := client.Read(t.Context()); !errors.Is(err, transparency.ErrUnavailable) {
			t.Errorf("Read after the stop error = %v, want ErrUnavailable", err)
		}
		refused("that has stopped")
		var none *Network
		if _, err := none.Dial(t.Context(), "a"); !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("Dial on nil error = %v, want ErrInvalid", err)
		}
		none.Cut("a")
		none.Refuse("a", true)
	})
}
