#!/usr/bin/env bash
# The README as somebody meets it who has just cloned this: a Debian with git,
# make and apt, the Go toolchain, and nothing else, in which the commands of the
# README's first code block are run as written, by an ordinary user.
#
#   tests/newcomer.sh [ROOTFS]     as root; ROOTFS is made if it is not there
#
# It is a root of its own (pivot_root, as chroot forbids user namespaces) in
# private namespaces; only Go and the network are the host's. Without ROOTFS
# everything is removed at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "newcomer: needs root, to make another root" >&2; exit 1; }

mirror=${MIRROR:-http://deb.debian.org/debian}
suite=${SUITE:-bookworm}
work=$(mktemp -d /var/tmp/newcomer-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
root=${1:-$work/root}

if [ ! -e "$root/etc/debian_version" ]; then
    command -v debootstrap >/dev/null ||
        DEBIAN_FRONTEND=noninteractive apt-get -qq -y install debootstrap >/dev/null
    echo "newcomer: making a $suite with git, make and apt"
    debootstrap --variant=minbase --include=git,make,ca-certificates "$suite" "$root" "$mirror" >"$work/log" 2>&1 ||
        { tail -20 "$work/log" >&2; exit 1; }
    useradd --root "$root" --create-home --shell /bin/bash newcomer
fi

home=$root/home/newcomer
rm -rf "$home/sandbox"
git clone -q --no-hardlinks . "$home/sandbox"
mkdir -p "$root/usr/local/go" "$root/host"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp -rL --remove-destination /etc/ssl/certs/. "$root/etc/ssl/certs/"

# The first block of commands in the README, without the clone that was done.
awk '/^```/ {if (inside) exit; inside = 1; next} inside' README.md |
    sed 's/^\$ //' | grep -v -e '^git clone' -e '^cd ' -e '^#' -e '^$' >"$home/commands"
[ -s "$home/commands" ] || { echo "newcomer: no commands in README.md" >&2; exit 1; }
chown -R --reference="$home" "$home/sandbox" "$home/commands"

cat >"$work/inside" <<'INSIDE'
set -eu
root=$1 go=$2
mount --bind "$root" "$root"
mount --rbind -o ro "$go" "$root/usr/local/go"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sys "$root/sys"
mount -t tmpfs -o mode=755 dev "$root/dev"
for node in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0" "fuse 10 229"; do
    set -- $node
    mknod -m 666 "$root/dev/$1" c "$2" "$3"
done
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/net"
mknod -m 666 "$root/dev/net/tun" c 10 200
mount -t devpts -o newinstance,ptmxmode=666 pts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for number in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${number%:*}" "$root/dev/${number#*:}"; done
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
cd "$root"
pivot_root . host
umount -l /host
cd /home/newcomer/sandbox
exec env -i PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin HOME=/home/newcomer USER=newcomer TERM=dumb \
    setpriv --reuid newcomer --regid newcomer --init-groups \
    bash -c 'while read -r line <&3; do echo "\$ $line"; eval "$line" || exit; done 3<../commands'
INSIDE
start=$SECONDS
unshare --mount --pid --ipc --uts --fork --kill-child --propagation private \
    bash "$work/inside" "$root" "$(go env GOROOT)"
echo "newcomer: every command of the README worked, in $((SECONDS - start)) s"
