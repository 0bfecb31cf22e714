#!/bin/sh
# Deletes a whole source tree inside the sandbox, undoes that, and compares the
# tree with a snapshot taken before by a program that shares no code with the
# sandbox. Installs what is missing on Debian and its like. Everything happens
# in a temporary directory, which is removed at the end.
set -eu
cd "$(dirname "$0")/../.."

bold=''; plain=''
if [ -t 1 ]; then bold=$(printf '\033[1m'); plain=$(printf '\033[0m'); fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
die() { echo "demo: $*" >&2; exit 1; }
now() { date +%s%N; }
since() { echo "   [$(( ($(now) - $1) / 1000000 )) ms]"; }
# shown COMMAND: prints a command as one would type it, runs it, says how long it took.
shown() {
    printf '\n$ %s\n' "$1"
    t=$(now)
    sh -c "$1"
    since "$t"
}
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 1; fi
}
apt_install() {
    command -v apt-get >/dev/null || die "$* missing, and this is not Debian or Ubuntu: please install it"
    echo "installing $*"
    as_root apt-get -qq update &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@" >/dev/null
}

# From Go 1.21 on, go itself fetches the version that go.mod asks for.
suitable_go() {
    command -v go >/dev/null || return 1
    v=$(go env GOVERSION 2>/dev/null | sed 's/^go//')
    major=${v%%.*}; rest=${v#*.}; minor=${rest%%[!0-9]*}
    [ "${major:-0}" -gt 1 ] || [ "${minor:-0}" -ge 21 ]
}
find_go() {
    PATH=$PATH:/usr/local/go/bin:$HOME/go/bin
    suitable_go && return
    for dir in /usr/lib/go-1.*/bin; do
        [ -x "$dir/go" ] || continue
        PATH=$dir:$PATH
        suitable_go && return
    done
    apt_install golang-go ca-certificates || die "could not install golang-go"
    suitable_go || die "Go 1.21 or later is needed, the packaged one is too old: see https://go.dev/doc/install"
}

say "1. What this machine has"
[ "$(uname -s)" = Linux ] || die "the demo needs Linux"
find_go
export PATH
command -v make >/dev/null || apt_install make || die "could not install make"
command -v setfattr >/dev/null || apt_install attr || echo "without setfattr (package attr): extended attributes are left out"
if ! [ -e /dev/fuse ]; then as_root modprobe fuse || die "/dev/fuse is missing: load the fuse module (modprobe fuse)"; fi
if ! (: <>/dev/fuse) 2>/dev/null; then
    as_root chmod 0666 /dev/fuse || die "/dev/fuse may be opened by root only: chmod 0666 /dev/fuse, or run the demo as root"
fi
go version

say "2. Build"
t=$(now)
make --no-print-directory build
go build -o bin/treecmp ./tests/cmd/treecmp
since "$t"
export PATH="$PWD/bin:$PATH"
echo
sandbox doctor

work=$(mktemp -d "${TMPDIR:-/tmp}/sandbox-demo.XXXXXX")
clean_up() { cd /; chmod -R u+rwX "$work" 2>/dev/null || true; rm -rf "$work"; }
trap clean_up EXIT
trap 'exit 130' INT TERM
XDG_STATE_HOME=$work/state # the history goes away with the rest
export XDG_STATE_HOME

say "3. A working folder: a copy of Go's own source tree, and some things that are easily lost"
cp -a "$(go env GOROOT)/src" "$work/project"
chmod -R u+w "$work/project"
cd "$work/project"
mkdir empty-directory
ln make.bash hard-link
chmod 4751 hard-link
touch -d '2001-02-03 04:05:06.123456789' hard-link
ln -s make.bash symbolic-link
mkfifo fifo
setfattr -n user.demo -v kept make.bash 2>/dev/null || echo "(no extended attributes here)"
treecmp -save ../before .

say "4. Delete everything, inside the sandbox"
shown "sandbox run -- sh -c 'rm -rf *'"
echo "On the real disk, $(find . -mindepth 1 | wc -l) files and directories are left in $PWD."

say "5. The history"
shown "sandbox history"

say "6. Undo"
shown "sandbox undo"

say "7. The proof"
echo "Compared with the snapshot from before: type, content (SHA-256), mode, owner, modification time to the"
echo "nanosecond, extended attributes, symlink targets, hard links, empty directories."
shown "treecmp -against ../before ." || die "the tree is not what it was"

say "8. Redo, and undo once more"
shown "sandbox redo"
shown "sandbox undo"
shown "treecmp -against ../before ." || die "the tree is not what it was"

say "Done: nothing differs."
