#!/bin/sh
# Deletes a tree in a virtual machine and undoes that, on a system that is not Linux (it runs on Linux, too):
#
#	elsewhere.sh PROGRAM [IMAGE CACHE [QEMU]]
#
# PROGRAM is sandbox; IMAGE is a directory with the guest's image, which is copied to CACHE, where the program looks for it; QEMU is a
# directory to find QEMU in. The tree is compared by the digests of its files.
set -eu
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
if [ $# -ge 3 ]; then
    mkdir -p "$3" && cp -R "$2/." "$3/"
fi
if [ -n "${4-}" ]; then PATH=$PATH:$4; export PATH; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/project/src/deep" && cd "$work/project"
for i in 1 2 3 4 5 6 7 8 9; do
    echo "file $i" >"src/deep/file-$i.txt"
    echo "$i" >"f$i"
done
digests() { find . -type f -exec cksum {} + | sort; }
before=$(digests)

shown() { echo "\$ sandbox $*"; "$program" "$@"; }
shown doctor || true
shown run --isolation vm -- sh -c 'rm -rf *; ls -A | wc -l'
[ -z "$(ls -A)" ] || { echo "elsewhere: the command removed nothing" >&2; exit 1; }
shown history
shown undo
[ "$(digests)" = "$before" ] || { echo "elsewhere: after the undo the tree is another" >&2; exit 1; }
shown redo
[ -z "$(ls -A)" ] || { echo "elsewhere: the redo removed nothing" >&2; exit 1; }
shown undo
[ "$(digests)" = "$before" ] || { echo "elsewhere: after the second undo the tree is another" >&2; exit 1; }
echo "everything is back"
