#!/bin/sh
# Runs every fuzz target for the given number of inputs (5000x) or time (30s)
# each, one at a time, as go test wants it. A time that ends while an input is
# being minimized can fail a run by itself ("context deadline exceeded"), so the
# smoke run of make check counts inputs.
set -eu
time=${1:-5000x}
n=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for pkg in $(go list ./...); do
	dir=$(go list -f '{{.Dir}}' "$pkg")
	for target in $(cat "$dir"/*_test.go 2>/dev/null | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' | sort -u); do
		echo "fuzz $pkg $target"
		go test -run='^$' -fuzz="^$target\$" -fuzztime="$time" -fuzzminimizetime=10x -timeout 120s "$pkg" >"$log" 2>&1 || { cat "$log"; exit 1; }
		n=$((n + 1))
	done
done
[ "$n" -gt 0 ] || { echo "no fuzz target found"; exit 1; }
