#!/bin/sh
# Checks what a program links when it imports one package: no public package
# links "testing" (the *test packages aside), and none links what it has no
# use for. Prints the first offence and exits 1.
set -eu
module=$(go list -m)
fail=0

# links PACKAGE PATTERN: reports whether PACKAGE links a package that matches.
links() { go list -deps "$1" | grep -Ex "$2" || true; }

for pkg in $(go list ./... | grep -Ev "/internal/|/examples/|test\$"); do
	got=$(links "$pkg" 'testing(/.*)?')
	[ -z "$got" ] || { echo "$pkg links $got"; fail=1; }
	got=$(links "$pkg" 'github.com/(alicebob/miniredis|joho/godotenv|anishathalye/porcupine)(/.*)?|go.uber.org/goleak(/.*)?|pgregory.net/rapid(/.*)?')
	[ -z "$got" ] || { echo "$pkg links a test's dependency: $got"; fail=1; }
done

# The packages do not import each other, and each links only its own peers.
for pkg in access location session relocation replica lock failure; do
	[ -d "$pkg" ] || continue
	others=$(printf '%s\n' access location session relocation replica lock failure | grep -vx "$pkg" | paste -sd'|')
	got=$(links "./$pkg" "$module/($others)(/.*)?")
	[ -z "$got" ] || { echo "$pkg imports $got"; fail=1; }
	case $pkg in
	lock) own='github.com/bsm/redislock' ;;
	failure) own='github.com/sony/gobreaker/v2' ;;
	relocation) own='github.com/coder/websocket' ;;
	*) own='none' ;;
	esac
	for dep in github.com/bsm/redislock github.com/sony/gobreaker/v2 github.com/coder/websocket; do
		[ "$dep" = "$own" ] || {
			got=$(links "./$pkg" "$dep(/.*)?")
			[ -z "$got" ] || { echo "$pkg links $got"; fail=1; }
		}
	done
done

# The root package is what everyone's drivers import: the standard library only.
got=$(go list -deps . | grep -F . | grep -vx "$module" || true)
[ -z "$got" ] || { echo "the root package links $got"; fail=1; }
exit $fail
