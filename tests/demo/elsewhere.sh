#!/bin/sh
# Deletes a tree in a virtual machine and undoes that, on a system that is not Linux (it runs on Linux, too):
#
#	elsewhere.sh PROGRAM [IMAGE [QEMU]]
#
# PROGRAM is sandbox; IMAGE is the archive of a guest's image, with checksums.txt beside it, which the program installs; QEMU is a
# directory to find QEMU in. The tree is compared by the digests of its files.
set -eu
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
if [ -n "${2-}" ]; then "$program" guest fetch "$2" --sums "$(dirname "$2")/checksums.txt"; fi
if [ -n "${3-}" ]; then PATH=$PATH:$3; export PATH; fi

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
