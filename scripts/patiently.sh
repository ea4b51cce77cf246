#!/bin/sh
# Run a command that prints nothing for long, with a line a minute.
# Usage: sh scripts/patiently.sh WHAT COMMAND...
what=$1
shift
(
    trap 'kill $! 2>/dev/null; exit' TERM
    minutes=0
    while :; do
        sleep 60 >/dev/null 2>&1 &
        wait $!
        minutes=$((minutes + 1))
        echo "… $what, $minutes min"
    done
) &
clock=$!
trap 'kill $clock 2>/dev/null' EXIT
trap 'exit 130' INT TERM
"$@"
