#!/bin/sh
# Checks that every Example function has an Output comment: an example without
# one is compiled and never run.
set -eu
git ls-files '*_test.go' | xargs awk '
	/^func Example/ { name = FILENAME ": " $2; out = 0; inside = 1; n++ }
	inside && /\/\/ (Unordered )?[Oo]utput:/ { out = 1 }
	inside && /^}/ { if (!out) { print name " has no Output"; bad = 1 } inside = 0 }
	END { if (!n) { print "no Example found"; bad = 1 } exit bad }'
