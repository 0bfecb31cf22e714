#!/usr/bin/env bash
# Runs the tests, as whoever calls it. The last line is "N passed, N failed".
#
#   tests/run.sh           all of it; as root the tests of the packages in tests/user-pass.txt
#                          run as root or as an ordinary user, as the commit draws
#   tests/run.sh quick     what daily work needs, in three to four minutes
#   tests/run.sh fuzz      all fuzz targets, FUZZTIME each (1m); nothing else
#
# All of it fuzzes what has changed since FUZZ_BASE: the commit where this branch left
# main, or on main the tenth last.
#
# All of it tries a part of the tables of many cases of one kind, which depends on the commit; TEST_SAMPLE=all tries all cases.
#
# Of all of it, what is under way after TEST_LIMIT seconds (4500) ends with its stacks. With CI=true a skipped test is a failure.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
mode=${1:-all}

# Programs under test pass on what they inherit, so they get nothing that whoever runs the tests has open. Bash's own
# descriptors have the flag 02000000 (O_CLOEXEC).
for info in "/proc/$$/fdinfo"/*; do
    fd=${info##*/}
    flags=$(sed -n 's/^flags:[[:space:]]*//p' "$info" 2>/dev/null)
    if [ "$fd" -gt 2 ] && [ -n "$flags" ] && [ $((flags & 02000000)) = 0 ]; then eval "exec $fd>&-"; fi
done

tmp=$(mktemp -d)
chmod 755 "$tmp" # the ordinary user's tests look in

# The directory that the tests work in. Its name is short, because sockets are made below it, whose
# paths have about 100 bytes. Without a disk of its own, what is left in it at the end stays: a mount
# may be among it.
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/tXXXXXX") && export TMPDIR
# However this script ends, what it has started ends, too: killed tests would write into the next run.
trap '[ -z "${hurry:-}" ] || kill "$hurry" 2>/dev/null; tests/end.sh "$TMPDIR" "$tmp"' EXIT
trap 'exit 130' INT
setsid env -u TMPDIR tests/end.sh "$TMPDIR" "$tmp" $$ </dev/null >/dev/null 2>&1 &
disown
# own_disk mounts a new ext4 there, in a file that nobody else sees and that is gone with the mount. The
# tests make and remove tens of thousands of files. An ext4 without a journal, which many machines of
# clouds start from, does not use the inodes of the last minute again and looks at all of them for
# each new file: tests of the undo log take four times as long on it.
own_disk() {
    [ "$(id -u)" = 0 ] && [ "$mode" != fuzz ] || return 1
    local image=$tmp/disk size
    size=$(df --output=avail -BM "$tmp" | tail -1 | tr -d 'M ')
    [ "$size" -gt 8192 ] || return 1
    truncate -s "$((size < 32768 ? size * 3 / 4 : 24576))M" "$image" && chmod 600 "$image" || return 1
    mkfs.ext4 -q -N 4000000 -E lazy_itable_init=1,lazy_journal_init=1 "$image" &&
        mount -o loop,noatime,barrier=0 "$image" "$TMPDIR" # nothing in it has to outlive this machine
    local status=$?
    rm -f "$image"
    return $status
}
own_disk >"$tmp/disk.log" 2>&1
chmod 1777 "$TMPDIR"
# The directory of each test gets its own group of inodes.
chattr +T "$TMPDIR" 2>/dev/null || true

start=$SECONDS
# worked: what the processors have worked, and how long they have been there, since the machine began; in ticks.
worked() { awk '$1 == "cpu" { for (i = 2; i <= 9; i++) all += $i; print all - $5 - $6, all }' /proc/stat 2>/dev/null || echo 0 0; }
worked_before=$(worked)
# CI waits for 90 minutes, installing included. What takes longer than this many seconds, because something hangs or the machine is
# very slow, ends with the stacks of the tests under way, instead of without a word.
limit=${TEST_LIMIT:-4500}
hurry() {
    local process never
    exec {never}<> <(:) # to wait for without a process, which would outlive this one
    read -r -t "$limit" -u "$never"
    touch "$tmp/late"
    while kill -0 $$ 2>/dev/null; do
        for process in /proc/[0-9]*; do
            case "$(readlink "$process/exe" 2>/dev/null)" in
            "$TMPDIR"/*.test | "$TMPDIR"/*".test (deleted)") kill -QUIT "${process#/proc/}" 2>/dev/null ;;
            esac
        done
        read -r -t 5 -u "$never"
    done
}
hurry=
[ "$mode" != all ] || { hurry </dev/null >/dev/null 2>&1 & hurry=$!; }
say() { printf '\n== %s (%d s)\n' "$*" $((SECONDS - start)); }
tally() { "$tmp/tally" -state "$tmp/state" "$@"; }
# Tests wait a third of their time, for programs and machines that start: one package
# more than there are processors keeps these busy.
at_once=$(($(nproc) + 1))
# A shell starts what runs in the background with INT and QUIT ignored, and nohup starts all with HUP ignored. A command that
# is sandboxed inherits that, so the tests begin with the default.
default_signals="env --default-signal=HUP,INT,QUIT"
$default_signals true 2>/dev/null || default_signals=
# No DWARF, which nothing reads: a stack's lines are told without it, and linking is cheaper.
gotests() { # PASS PACKAGES ARGUMENT...
    local pass=$1 packages=$2 cgo=0
    shift 2
    [[ " $* " != *" -race "* ]] || cgo=1
    if [ -e "$tmp/late" ]; then
        tally check "[$pass] after $limit s (TEST_LIMIT)" false
        return
    fi
    # shellcheck disable=SC2086
    CGO_ENABLED=$cgo $default_signals go test -json -count=1 -timeout=40m -ldflags=-w -p "$at_once" "$@" $packages 2>&1 | tally -pass "$pass" -allow-skip "$allow_skip" tests
}
# go-fuse's posixtest skips by itself what the disk's file system lacks, and fstat
# of a removed directory, which no FUSE server without directory handles can answer.
# Debian 12's cargo is older than the registries that tests/suite/devtools serves.
allow_skip='backing filesystem does not support large xattrs|hanwen/go-fuse/issues/55|no cargo of 1.68 or newer'

# All is compiled in one way, as "make build" does it: with another flag, or with cgo, all of it would be compiled once more, the library and all modules
# included. Only the race detector needs cgo.
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-trimpath" CGO_ENABLED=0
if ! go build -o "$tmp/" ./tests/cmd/tally ./tests/cmd/asuser ./tests/cmd/turns ./tests/cmd/typecheck; then
    echo "0 passed, 1 failed"
    exit 1
fi

# A target for each processor, with one worker: a target builds and starts, in which a
# second worker would have nothing to do.
fuzz() { # TIME [MOST]: the targets in the directories on stdin; of more than MOST, those that the commit draws
    local dir target
    while read -r dir; do
        for target in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go 2>/dev/null | sed 's/^func //'); do
            printf '%s %s\n' "$target" "$dir"
        done
    done | drawn "${2:-}" | while read -r target dir; do
        printf '%s (%s)\0%s\0./%s\0' "$target" "$dir" "$target" "$dir"
    done | xargs -0 -r -n 3 -P "$(nproc)" sh -c '"$0" -state "$1" check "$3" tests/fuzz.sh "$4" "$5" "$2" </dev/null' \
        "$tmp/tally" "$tmp/state" "$1"
}
# light MOST: of the directories on stdin those whose tests are built of at most MOST packages. For a fuzz target all of them are compiled
# once more, instrumented.
light() {
    sed 's|^|./|' | xargs -r go list -e -test -f '{{.ImportPath}} {{len .Deps}}' 2>/dev/null |
        awk -v most="$1" -v module="$(go list -m)/" '$1 ~ /\.test$/ && $2 <= most { sub(module, "", $1); sub(/\.test$/, "", $1); print $1 }'
}
drawn() { # MOST (empty: all): lines, drawn by the commit's number
    local commit line
    commit=$(git rev-parse HEAD 2>/dev/null || true)
    while read -r line; do
        printf '%s %s\n' "$(printf '%s %s' "$commit" "$line" | cksum | cut -d' ' -f1)" "$line"
    done | sort -n | cut -d' ' -f2- | if [ -n "$1" ]; then head -n "$1"; else cat; fi
}
all_directories() { find . -name '*_test.go' -printf '%P\n' | xargs -n1 dirname | sort -u; }
changed_directories() { # with Go files that differ from FUZZ_BASE
    local base=${FUZZ_BASE:-} name
    if [ -z "$base" ]; then
        for name in origin/main main; do
            base=$(git merge-base HEAD "$name" 2>/dev/null) && break
        done
        if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then base=HEAD~10; fi
    fi
    git rev-parse -q --verify "$base^{commit}" >/dev/null || return 1
    { git diff --name-only --diff-filter=d "$base" -- '*.go'; git ls-files --others --exclude-standard -- '*.go'; } |
        xargs -r -n1 dirname | sort -u
}

if [ "$mode" = fuzz ]; then
    fuzz "${FUZZTIME:-1m}" < <(all_directories)
    tally sum
    exit
fi

say "build"
tally check "make build" make --no-print-directory build

# The jail's tests need its inner program, and the ordinary user no compiler.
cp cmd/sandbox/internal/launch/embed/sandbox-guest-"$(go env GOARCH)" "$tmp/sandbox-guest" && export JAIL_TEST_GUEST=$tmp/sandbox-guest

# The property tests draw the same cases each time, so that a change is judged by what
# it changes. RAPID_SEED=0 draws others.
export RAPID_SEED=${RAPID_SEED:-20261121}

# Of tables of hundreds of cases of one kind each commit tries a part, another one than the commit before. TEST_SAMPLE=all tries
# all of them, as "go test" without this script does.
# A copy without its history tries the first part.
sample=$(git rev-parse HEAD 2>/dev/null | cut -c1-6)
export TEST_SAMPLE=${TEST_SAMPLE:-$((16#${sample:-0}))}
# Of the property tests the first cases, which find nearly all that the hundred do that each draws by itself.
[ "$TEST_SAMPLE" = all ] || export RAPID_CHECKS=${RAPID_CHECKS:-40}

who=$(id -un)
module=$(go list -m)
tested=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
# packages PATTERN: those with tests that do not match, the ones that take or wait longest first, so that
# the others run beside them.
packages() {
    local all first
    all=$(grep -Ev "$1" <<<"$tested")
    first=$(for p in tests/suite/vm cmd/sandbox tests/suite/posix tests/suite/semantics tests/suite/escape fsbridge/mediate \
        fsbridge/undolog fsbridge/fuse tests/suite/filesystems/guest tests/suite/ui tests/suite/release tests/suite/agents tests/suite/devtools tests/suite/mcpclients \
        actors/interceptor actors hypervisor/network hypervisor/qemu fsbridge/files; do
        grep -x "$module/$p" <<<"$all"
    done)
    printf '%s\n' $first
    grep -vxF "$first" <<<"$all"
}

# One damaged log after the other, hundreds of them: where the injected faults are, which have no race detector.
damages='TestU14DamagedLog|TestU14CutBetweenRecords'

if [ "$mode" = quick ]; then
    # They need minutes, or a mirror.
    suites='agents|container|crash|day|devtools|e2b|escape|filesystems|filesystems/guest|mcpclients|pod|posix|posixmeta|promises|release|semantics|ui|vm|wine'
    slow="/(guest/image|hypervisor/qemu|tests/suite/($suites))\$"
    say "tests as $who"
    gotests "$who" "$(packages "$slow")" -skip "^($damages)\$"
    say "result"
    echo "left out: the race detector, the ordinary user's pass, injected faults, damaged logs, fuzzing, linters and"
    echo "other platforms, and the packages guest/image, hypervisor/qemu and tests/suite/{${suites//|/,}}: make test"
    tally sum
    exit
fi

tally check "build with fault injection" go build -tags faults,embedguest -o bin/sandbox-faults ./cmd/sandbox

# As the program sets it for itself.
export GOGC=${GOGC:-200}

race=-race
# A program with the race detector lingers for a second at its end; the tests start
# thousands of them.
export GORACE=atexit_sleep_ms=10
if ! command -v gcc >/dev/null; then
    echo "no gcc here: the race detector is left out"
    race=
    [ "${CI:-}" != true ] || tally check "race detector" false
fi


static_checks() {
    if command -v golangci-lint >/dev/null || [ "${CI:-}" = true ]; then # what go vet looks for is a part of it
        tally check "golangci-lint" golangci-lint run --allow-parallel-runners ./...
    else
        echo "no golangci-lint here: .ci/run installs it"
        tally check "go vet" go vet -tags faults,cluster ./...
    fi
    # Nobody runs what a build would make. What it would refuse is found without it.
    for platform in darwin/arm64 windows/amd64 linux/arm64; do
        tally check "types for $platform" "$tmp/typecheck" "$platform" ./...
    done
}

# What virtual machines boot. It needs the network more than the processor.
images() {
    if command -v apt-get >/dev/null; then
        tally check "sandbox guest build" bin/sandbox guest build --arch amd64 --image-dir "$tmp/image"
        chmod -R a+rX "$tmp/image" && export GUEST_TEST_IMAGE=$tmp/image
        # Where the tests look for it (tests/kit/guestimage): the race detector would make it four times slower.
        tally check "sandbox guest build --generic" bin/sandbox guest build --arch amd64 --generic \
            --image-dir "${XDG_CACHE_HOME:-$HOME/.cache}/sandbox-tests-generic/sandbox/guest"
    fi
    if [ "$(id -u)" = 0 ] && command -v mmdebstrap >/dev/null && command -v sqfstar >/dev/null; then
        cp -r "$tmp/image" "$tmp/debian" # the same kernel, with a small Debian beside it
        tally check "sandbox guest build --rootfs debian" bin/sandbox guest build --arch amd64 --image-dir "$tmp/debian" \
            --rootfs debian --minimal --include gcc,libc6-dev,git,make,python3-minimal
        chmod -R a+rX "$tmp/debian" && export GUEST_TEST_DEBIAN=$tmp/debian
    fi
}

# Suites that only start a program, which has no race detector: it would slow down nothing but the test itself.
driving='/tests/suite/(agents|container|day|devtools|e2b|filesystems/guest|mcpclients|mix|observe|pod|promises|release|semantics|ui)$'
# Packages in which nothing works beside something else: formats, texts, tables, trees and one call after the other.
alone='/(actors/frontend|cmd/sandbox/internal/(agents|config|configure|doctor|manual)|fsbridge/(gitfiles|pidfiles|posixmeta|readonly|texts|undolog/internal/stamps)|guest/(image|inner|script)|hypervisor(/(filters|programs))?|messages/(lexical|logctx)|tests/(cmd|kit)/[a-z]*|tests/suite/(filesystems|house|posixmeta))$'
booting='/(tests/suite/(vm|promises|release)|guest/image)$' # they need the images

# These suites race other programs, or start one for each call. The supervisor's own code runs with the race detector in the tests of the bridges and the actors.
racing='/tests/suite/(escape|inside|posix)$'
bridging='/(fsbridge/(fuse|mediate|undolog)|actors/interceptor)$'
# Of the packages with tests of their own for injected faults only these: the others have run.
faulty=$(grep -rlE --include='*_test.go' '^//go:build .*\bfaults\b' fsbridge)
faulty_packages=$(printf './%s\n' $faulty | xargs -n1 dirname | sort -u)

# Where nothing has been compiled before, this takes minutes, and tests that ran beside it would wait for longer than they do.
compile() { # PACKAGES ARGUMENT...
    # shellcheck disable=SC2016
    tally check "compile the tests${2:+ ${*:2}}" sh -c 'go list -export -deps -test "$@" >/dev/null' sh "${@:2}" $1
}
compile ./...
[ -z "$race" ] || CGO_ENABLED=1 compile "$(packages "$driving|$racing|$alone")" "$race"
compile "$faulty_packages ./tests/suite/crash/..." -tags faults

half=$((($(nproc) + 1) / 2))
# The packages that run a second time, as an ordinary user.
shared=$(grep -v '^[#~-]' tests/user-pass.txt | awk -v module="$module" '{print module "/" $1}')
# left_out PACKAGES [-root]: what the user's pass, or root's, of these packages leaves out. The user's leaves out the tests for which
# root's is enough. Of the others each commit draws half, and another commit has the rest; those that ask who runs them are always there.
# With -root it is the other half.
# shellcheck disable=SC2046
left_out() { "$tmp/turns" -sample "$TEST_SAMPLE" "${@:2}" $(sed "s|^$module/||" <<<"$1"); }
# user_tests GREP-ARGUMENT...: of the packages that run a second time those that it leaves. Without the race detector: what it finds does not depend on the user.
user_tests() {
    local packages
    [ "$(id -u)" = 0 ] || return 0
    packages=$(packages '^$' | grep -xF "$shared" | grep "$@")
    gotests user "$packages" -vet=off -p "$half" -exec "$tmp/asuser" -skip "$(left_out "$packages")"
}
# root_tests PACKAGES SKIP ARGUMENT...: as whoever runs this, but for the tests that match SKIP. go vet has run. Of the packages that run a second time, root's pass has the half
# that the user's leaves out: one pattern says what is left out of all packages of a call, so the others have a call of their own.
root_tests() {
    local twice once left=
    twice=$(grep -xF "$shared" <<<"$1")
    once=$(grep -vxF "$shared" <<<"$1")
    [ "$(id -u)" != 0 ] || [ -z "$twice" ] || left=$(left_out "$twice" -root)
    [ -z "$twice" ] || gotests "$who" "$twice" -vet=off -p "$half" -skip "$2${2:+${left:+|}}$left" "${@:3}"
    [ -z "$once" ] || gotests "$who" "$once" -vet=off -p "$half" -skip "$2" "${@:3}"
}

# The tests are these jobs, the longest first; "lanes" of them run at a time. Each waits a part of its time, for programs and
# machines that start: together they keep the processors busy.
jobs_of_all='machines bridges commands programs others kills faults user_commands user_files user_others portable plain'
lanes=$(($(nproc) + 2))
machines() {
    images
    root_tests "$module/tests/suite/promises" ''
    root_tests "$(packages '/tests/suite/(vm|promises)$' | grep -E "$booting")" '' -p 1
    root_tests "$module/tests/suite/vm" '' $race
    user_tests '/tests/suite/vm$'
}
# These tests of the program start it a thousand times: with the race detector each start takes ten times as long. So it is there
# only where several programs are at work in one session at the same time, fewer ones ("scale" in the tests). As root all of
# them run there alone, because the ordinary user's pass has them without it, and whole.
at_the_same_time='^Test(TwoTerminals|OwnerStays|ManyAtOnce|MC08.*|Joined.*|Racing.*|ManyJoined|BadJoiners|Approvals.*|Serve.*|MCPConnect.*|StepsFromInside)$'
commands() {
    local program left=
    program=$(packages '^$' | grep -E '/cmd/sandbox$')
    [ "$(id -u)" != 0 ] || [ -z "$race" ] || left=$at_the_same_time
    root_tests "$program" "$left"
    [ -z "$race" ] || gotests race "$program" -vet=off "$race" -run "$at_the_same_time"
}
programs() { root_tests "$(packages "$booting" | grep -E "$driving")" ''; }
bridges() {
    root_tests "$(packages '^$' | grep -E "$racing")" ''
    root_tests "$(packages '^$' | grep -E "$bridging")" "^($damages)\$" $race
}
# The kills have a job of their own, which has all of them.
others() { root_tests "$(packages "$driving|$booting|$racing|$bridging|$alone|/cmd/sandbox\$|/tests/suite/crash\$")" '' $race; }
plain() { root_tests "$(packages "$booting" | grep -E "$alone")" ''; }
# Each campaign has a folder of its own, and waits as much as it works. On a slow machine there is not time for all the kills, which
# are random ones: the tests have to end before CI ends them.
kills() { SANDBOX_CRASH_RUNS=150 SANDBOX_CRASH_TIME=40s gotests crash ./tests/suite/crash/... -vet=off -tags faults -parallel "$at_once"; }
faults() {
    local names
    names=$(grep -hoE '^func Test[A-Za-z0-9_]+' $faulty | sed 's/^func //' | sort -u | paste -sd'|')
    gotests faults "$faulty_packages" -vet=off -tags faults -run "^($names|$damages)\$"
}
# The terminal's tests, a half of the bridge's and a part of the log's, by no call that macOS lacks (package posix says how). Left out is what cannot be had
# so: the mediated bridge, files that never had a name, files of other users, setuid where nobody tells who can write, shared extents.
portable() {
    local lacking='^TestMBGrant|^Test(Content|CreateAs|ModeBitsComeBack|U7SharedExtents)$|^TestUI$/^(O_TMPFILE|special_files)|^TestMutations$/^bridge_and_log$/^(O_TMPFILE|a_write_clears)'
    local allow_skip="$allow_skip|does not tell when a file was made|no lasting file handles" part=.
    [ "$TEST_SAMPLE" = all ] || part="^Test(UI|U$((TEST_SAMPLE % 9 + 1))[A-Z].*)\$"
    gotests portable "./fsbridge/hostfs/... ./fsbridge/vfs ./fsbridge/ninep" -vet=off -tags portable -p "$half" \
        -skip "$lacking|$(left_out "$(printf '%s\n' fsbridge/{hostfs,hostfs/posix,vfs,ninep})")"
    gotests portable ./cmd/sandbox/internal/console -vet=off -tags portable
    gotests portable ./fsbridge/undolog/... -vet=off -tags portable -p "$half" -run "$part" -skip "$lacking"
    TEST_SAMPLE=all gotests portable ./tests/suite/posix -vet=off -tags portable -run '^TestMutations$/^bridge' -skip "$lacking"
}
user_commands() { user_tests '/cmd/sandbox$'; }
user_files() { user_tests -E '/tests/suite/(escape|posix|semantics)$'; }
user_others() { user_tests -vE '/(cmd/sandbox|tests/suite/(escape|posix|semantics|vm))$'; }

# each JOB...: runs them, and shows what each has said at its end, and what it took: what programs that it did not wait for took is not in that.
each() {
    local job begun=0
    for job; do
        [ $((begun += 1)) -le "$lanes" ] || wait -n
        {
            local TIMEFORMAT='took %0R s, and %0U + %0S s of a processor'
            { time "$job" >"$tmp/$job" 2>&1 </dev/null; } 2>"$tmp/$job.took"
            [ ! -s "$tmp/$job" ] || flock "$tmp/screen" cat - "$tmp/$job" <<<$'\n'"-- $job ($((SECONDS - start)) s): $(cat "$tmp/$job.took")"
        } &
    done
    wait
}
say "tests as $who and as an ordinary user, kills, injected faults; static checks"
# In a session of its own, to which the scheduler gives what the tests leave over.
export tmp
export -f tally static_checks
setsid nice -n 19 bash -c 'echo 19 2>/dev/null >/proc/self/autogroup; time static_checks' >"$tmp/static" 2>&1 &
static=$!
# shellcheck disable=SC2086
(each $jobs_of_all)
wait "$static"
cat "$tmp/static"

if changed_directories >"$tmp/changed"; then
    say "fuzzing what has changed, a moment each"
else
    say "fuzzing all, a moment each: it is not known what has changed"
    all_directories >"$tmp/changed"
fi
# A commit that moves many packages changes nearly all of them: a moment each would be minutes.
[ -e "$tmp/late" ] || fuzz 3s 6 < <(light 300 <"$tmp/changed")

say "result"
left=$(tests/end.sh -list "$TMPDIR")
[ -z "$left" ] || printf 'still running, though no test is: a test has left it\n%s\n\n' "$left"
awk -v before="$worked_before" '{ split(before, b); if ($2 > b[2]) printf "the processors worked %d %% of the time\n", 100 * ($1 - b[1]) / ($2 - b[2]) }' < <(worked)
tally sum
