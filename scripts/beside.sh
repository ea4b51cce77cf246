#!/bin/sh
# beside.sh CHECK PROGRAM ...: run a program and, at the same time, a check, given as one command line. Fails if either
# fails. The output of the check is printed only if it fails, after the program has ended.
set -eu

check=$1
shift
output=$(mktemp)
sh -c "exec $check" > "$output" 2>&1 &
checking=$!
trap 'kill $checking 2> /dev/null || true; rm -f "$output"' EXIT
trap 'exit 130' INT TERM
status=0
"$@" || status=$?
if ! wait $checking; then
	cat "$output"
	echo "Failed: $check"
	status=1
fi
exit $status
