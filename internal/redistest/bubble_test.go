package redistest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-transparency/transparency/internal/redistest"
)

func TestBubbleClientLivesInFakeTime(t *testing.T) {
	begin := time.Now()
	synctest.Test(t, func(t *testing.T) {
		client := redistest.BubbleClient(t)
		before, err := client.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		set(t, client, "k", "v", time.Second)
		time.Sleep(999 * time.Millisecond)
		if got := get(t, client, "k"); got != "v" {
			t.Errorf("GET after 999ms of 1s = %q, want %q", got, "v")
		}
		time.Sleep(2 * time.Second)
		if err := client.Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("GET after the TTL error = %v, want Nil", err)
		}
		time.Sleep(48 * time.Hour)
		after, err := client.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := after.Sub(before), 48*time.Hour+2999*time.Millisecond; got != want {
			t.Errorf("TIME moved by %v, want %v", got, want)
		}
		sec, err := client.Eval(t.Context(), `return redis.call('TIME')[1]`, nil).Int64()
		if err != nil || sec != after.Unix() {
			t.Errorf("TIME in a script = %d, %v, want %d", sec, err, after.Unix())
		}
	})
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("two days of fake time took %v", d)
	}
}

func TestBubbleClientPubSubAndBlockingCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := redistest.BubbleClient(t)
		sub := client.Subscribe(t.Context(), "ch")
		defer sub.Close()
		messages := sub.Channel()
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.AfterFunc(time.Hour, func() { client.Publish(t.Context(), "ch", "hello") })
		start := time.Now()
		if msg := <-messages; msg.Payload != "hello" || time.Since(start) != time.Hour {
			t.Errorf("message = %v after %v, want hello after 1h", msg, time.Since(start))
		}
		start = time.Now()
		if err := client.BLPop(t.Context(), 3*time.Second, "list").Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("BLPOP error = %v, want Nil", err)
		}
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("BLPOP took %v, want 3s", got)
		}
	})
}

// Many callers at once, in one bubble after another: no pooled timer may cross from one to the next.
func TestBubbleClientManyCallers(t *testing.T) {
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			client := redistest.BubbleClient(t)
			for range 500 {
				go func() {
					if err := client.Incr(t.Context(), "n").Err(); err != nil {
						t.Errorf("INCR error = %v", err)
					}
				}()
			}
			synctest.Wait()
			if got := get(t, client, "n"); got != "500" {
				t.Errorf("n = %s, want 500", got)
			}
		})
	}
}
