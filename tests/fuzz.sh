#!/usr/bin/env bash
# tests/fuzz.sh TARGET DIR TIME: fuzzes one target, on one processor, and fails if it
# finds something.
#
# Until Go 1.27 the end of -fuzztime may itself be reported as a failure of the
# target, "context deadline exceeded", without an input (go.dev/issue/75804). Only
# that is tried again.
#
# No vet: tests/run.sh has it run, and it would read all packages again, since those of a
# fuzz target are compiled in another way.
#
# To make an input that covers something new smaller takes seconds with some targets,
# and nothing new is tried meanwhile: so little time is given to that.
set -u

for try in 1 2 3; do
    out=$(go test -vet=off -run='^$' -fuzz="^$1\$" -fuzztime="$3" -parallel=1 -fuzzminimizetime=10x "$2" 2>&1) && exit 0
    bare=$(printf '%s\n' "$out" | grep -cx '    context deadline exceeded')
    [ "$bare" = 1 ] && ! printf '%s\n' "$out" | grep -qE 'Failing input written|panic|DATA RACE|fuzzing process' || break
    echo "try $try ended with its deadline for a failure (go.dev/issue/75804)"
done
printf '%s\n' "$out"
exit 1
