package failure

import (
	"net/http"
	"testing"
	"time"
)

func FuzzRetryAfter(f *testing.F) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, value := range []string{"", "7", "-1", "+3", " 9 ", "1e3", "18446744073709551616", "Fri, 02 Jan 2026 03:05:05 GMT",
		"Friday, 02-Jan-26 03:05:05 GMT", "Fri Jan  2 03:05:05 2026", "Fri, 31 Dec 9999 23:59:59 GMT", "0001-01-01"} {
		f.Add(value, "")
		f.Add(value, now.Format(http.TimeFormat))
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		got := parseRetryAfter(value, date, now)
		if got < 0 || got > forever {
			t.Errorf("parseRetryAfter(%q, %q) = %v", value, date, got)
		}
		if again := parseRetryAfter(value, date, now); again != got {
			t.Errorf("parseRetryAfter(%q, %q) = %v, then %v", value, date, got, again)
		}
	})
}
