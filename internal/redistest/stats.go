package redistest

import (
	"context"
	"strconv"
	"strings"
	"testing"
)

// Commands returns how often each command ran since the server started, exactly, by its name in
// lower case ("evalsha", "config|get"). Commands that a script calls are counted beside the
// script, as Redis does. What a client says when it connects (HELLO, AUTH, SELECT, CLIENT …) and
// what this package asks on its own are left out.
func (s *Server) Commands(tb testing.TB) map[string]int64 {
	tb.Helper()
	p := s.own("Commands")
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	info, err := p.admin.Info(ctx, "commandstats").Result()
	if err != nil {
		tb.Fatalf("redistest: Commands: %v", err)
	}
	counts := parseCommandStats(info)
	// Redis counts a command after it ran, so this INFO is not in its own answer.
	if counts["info"] -= s.infos; counts["info"] == 0 {
		delete(counts, "info")
	}
	s.infos++
	return counts
}

// Calls returns the sum of [Server.Commands].
func (s *Server) Calls(tb testing.TB) int64 {
	tb.Helper()
	var sum int64
	for _, n := range s.Commands(tb) {
		sum += n
	}
	return sum
}

// parseCommandStats reads lines like "cmdstat_get:calls=3,usec=12,…".
func parseCommandStats(info string) map[string]int64 {
	counts := make(map[string]int64)
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok || connecting(name) {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		if n, err := strconv.ParseInt(calls, 10, 64); err == nil && n > 0 {
			counts[name] = n
		}
	}
	return counts
}

func connecting(name string) bool {
	switch name {
	case "hello", "auth", "select", "config|resetstat":
		return true
	}
	return strings.HasPrefix(name, "client|")
}
