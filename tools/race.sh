#!/bin/sh
# Runs every test under the race detector, in a random order. Packages whose
# tests fail are run once more, each alone: a test on real clocks and servers
# can lose to a busy machine, and what is broken fails again. What is found once
# is enough for data races, leaks, panics and timeouts: those are not run again.
set -eu
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if go test -race -shuffle=on -count=1 -timeout 10m "$@" >"$log" 2>&1; then
	cat "$log"
	exit 0
fi
cat "$log"
if grep -qE 'DATA RACE|unexpected goroutines|^panic: |\[build failed\]|\[setup failed\]' "$log"; then
	exit 1
fi
failed=$(sed -n 's/^FAIL[[:space:]]\{1,\}\([^[:space:]]*\)[[:space:]].*/\1/p' "$log" | sort -u)
[ -n "$failed" ] || exit 1
echo "once more, each alone:" $failed
# shellcheck disable=SC2086 # a list
go test -race -shuffle=on -count=1 -timeout 10m -p 1 $failed
