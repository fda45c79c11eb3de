#!/bin/sh
# Checks that every test, fuzz target and suite check that docs/scenarios.md
# names is there.
set -eu
bad=0
for name in $(grep -o '`\(Test\|Fuzz\)[A-Za-z0-9_]*`' docs/scenarios.md | tr -d '`' | sort -u); do
	git grep -qE "^func $name\(" -- '*_test.go' || { echo "docs/scenarios.md names $name, which is not there"; bad=1; }
done
grep -o '"LK-[^"…]*"' docs/scenarios.md | sort -u | while read -r name; do
	git grep -qF "$name" -- '*.go' || { echo "docs/scenarios.md names $name, which is not there"; exit 1; }
done || bad=1
exit $bad
