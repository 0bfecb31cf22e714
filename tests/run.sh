#!/usr/bin/env bash
# Runs everything there is to test, as whoever calls it; as root the tests run a
# second time as an ordinary user. The last line is "N passed, N failed".
#
#   tests/run.sh           all of it
#   tests/run.sh quick     without linters, cross-builds, fuzzing; short campaign
#
# With CI=true a skipped test is a failure.
set -uo pipefail
cd "$(dirname "$0")/.."
mode=${1:-all}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp" # the ordinary user's tests look in

start=$SECONDS
say() { printf '\n== %s (%d s)\n' "$*" $((SECONDS - start)); }
tally() { "$tmp/tally" -state "$tmp/state" "$@"; }
gotests() { # PASS PACKAGES ARGUMENT...
    local pass=$1 packages=$2
    shift 2
    # shellcheck disable=SC2086
    go test -json -count=1 -timeout=15m "$@" $packages 2>&1 | tally -pass "$pass" -allow-skip "$allow_skip" tests
}
# go-fuse's posixtest skips by itself what the disk's file system lacks, and fstat
# of a removed directory, which no FUSE server without directory handles can answer.
allow_skip='backing filesystem does not support large xattrs|hanwen/go-fuse/issues/55'

if ! go build -o "$tmp/tally" ./tests/cmd/tally || ! go build -o "$tmp/asuser" ./tests/cmd/asuser; then
    echo "0 passed, 1 failed"
    exit 1
fi

say "build"
tally check "make build" make --no-print-directory build
tally check "build with fault injection" go build -tags faults,embedguest -o bin/sandbox-faults ./cmd/sandbox

# The jail's tests need its inner program, and the ordinary user no compiler.
cp cmd/sandbox/internal/guestbin/embed/sandbox-guest-"$(go env GOARCH)" "$tmp/sandbox-guest" && export JAIL_TEST_GUEST=$tmp/sandbox-guest

# What virtual machines boot, built once for all tests.
if command -v apt-get >/dev/null; then
    tally check "sandbox guest build" bin/sandbox guest build --arch amd64 --image-dir "$tmp/image"
    chmod -R a+rX "$tmp/image" && export GUEST_TEST_IMAGE=$tmp/image
fi
if [ "$(id -u)" = 0 ] && command -v mmdebstrap >/dev/null && command -v sqfstar >/dev/null; then
    cp -r "$tmp/image" "$tmp/debian" # the same kernel, with a small Debian beside it
    tally check "sandbox guest build --rootfs debian" bin/sandbox guest build --arch amd64 --image-dir "$tmp/debian" \
        --rootfs debian --minimal --include gcc,libc6-dev,git,make,python3-minimal
    chmod -R a+rX "$tmp/debian" && export GUEST_TEST_DEBIAN=$tmp/debian
fi

if [ "$mode" = all ]; then
    say "static checks"
    tally check "go vet" go vet -tags faults ./...
    if command -v golangci-lint >/dev/null || [ "${CI:-}" = true ]; then
        tally check "golangci-lint" golangci-lint run --allow-parallel-runners ./...
    else
        echo "no golangci-lint here: .ci/run installs it"
    fi
    for platform in darwin/arm64 windows/amd64 linux/arm64; do
        tally check "build for $platform" env GOOS=${platform%/*} GOARCH=${platform#*/} CGO_ENABLED=0 go build ./...
    done
    tally check "vet for darwin" env GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go vet ./...
fi

race=-race
# A program with the race detector lingers for a second at its end; the tests start
# thousands of them.
export GORACE=atexit_sleep_ms=10
if ! command -v gcc >/dev/null; then
    echo "no gcc here: the race detector is left out"
    race=
    [ "${CI:-}" != true ] || tally check "race detector" false
fi

# The property tests draw the same cases each time, so that a change is judged by what
# it changes. RAPID_SEED=0 draws others.
export RAPID_SEED=${RAPID_SEED:-20261121}

who=$(id -un)
say "tests as $who"
gotests "$who" ./... $race
if [ "$(id -u)" = 0 ]; then
    say "tests as an ordinary user"
    gotests user ./... $race -exec "$tmp/asuser"
fi

say "injected faults, killed programs"
campaign=500
[ "$mode" = all ] || campaign=100
SANDBOX_CRASH_RUNS=$campaign gotests faults "./fsbridge/undolog/... ./tests/suite/crash/..." -tags faults

if [ "$mode" = all ]; then
    say "fuzzing, a moment each"
    grep -rno --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:[0-9]*:func /:/' | sort |
        while IFS=: read -r file target; do
            tally check "$target ($(dirname "$file"))" tests/fuzz.sh "$target" "$(dirname "$file")" 5s
        done
fi

say "result"
tally sum
