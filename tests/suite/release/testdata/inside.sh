#!/bin/sh
# Run by TestPackages as root in namespaces of its own: a Debian in which the package is
# installed, used by an ordinary user and by root, installed over itself and purged.
set -eu
root=$1
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sys "$root/sys"
mount -t tmpfs -o mode=755 dev "$root/dev"
for node in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0" "fuse 10 229"; do
    set -- $node
    mknod -m 666 "$root/dev/$1" c "$2" "$3"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 pts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mount -t tmpfs -o mode=755 run "$root/run"
mount -t tmpfs -o mode=700 home "$root/root"
mkdir -p "$root/host" "$root/home/user"
chown 1000:1000 "$root/home/user"
cd "$root"
pivot_root . host
perl -e '$at = "/host"; exit syscall(166, $at, 2) != 0' # umount2 with MNT_DETACH: this Debian has no mount(8)
rmdir /host
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive sh -eu <<'INSIDE'
as_user() { HOME=/home/user setpriv --reuid 1000 --regid 1000 --clear-groups "$@"; }
fail() { echo "FAILED: $*"; exit 1; }
profile=/etc/apparmor.d/sandbox

# An AppArmor that knows nothing of user namespaces gets no profile, a newer one does.
dpkg -i /sandbox.deb
[ ! -e $profile ] || fail "a profile that this AppArmor cannot read"
mkdir -p /etc/apparmor.d/abi
: >/etc/apparmor.d/abi/4.0
dpkg -i /sandbox.deb
cmp $profile /usr/share/sandbox/apparmor
echo "# mine" >>$profile
dpkg -i /sandbox.deb
grep -q '^# mine' $profile || fail "an edited profile was overwritten"

dpkg --verify sandbox
dpkg --status sandbox | grep '^Version: 1.2.3$'
sandbox version
for file in /usr/share/man/man1/sandbox.1.gz /usr/share/man/man1/sandbox-run.1.gz /usr/share/bash-completion/completions/sandbox \
    /usr/share/zsh/vendor-completions/_sandbox /usr/share/fish/vendor_completions.d/sandbox.fish /usr/lib/systemd/user/sandbox@.service \
    /usr/share/doc/sandbox/copyright /usr/share/doc/sandbox/THIRD-PARTY /usr/share/doc/sandbox/changelog.gz; do
    [ -s $file ] || fail "$file is not there"
done
gzip -dc /usr/share/man/man1/sandbox-run.1.gz | grep -q '^.SH "NAME"' || fail "no manual page"
bash -n /usr/share/bash-completion/completions/sandbox

work='
mkdir -p ~/project/src && cd ~/project
echo keep >src/file
sandbox run -- sh -c "rm -r src; echo new >other"
[ ! -e src ] && [ -s other ]
sandbox undo
[ "$(cat src/file)" = keep ] && [ ! -e other ]
'
as_user sh -euc "$work"
sh -euc "$work"
# As the systemd unit starts a session; systemd itself is not here. Descriptor 3 says that it is up.
session='
cd ~/project
$(sed -n "s/^ExecStart=//p" /usr/lib/systemd/user/sandbox@.service | sed "s#%f#$PWD#") 3>~/session.out 2>~/session.err &
until [ -s ~/session.out ]; do kill -0 $! || { cat ~/session.err; exit 1; }; done
sandbox run -- touch joined
sandbox stop
wait $! || :
sandbox undo
[ ! -e joined ]
'
as_user sh -euc "$session"

dpkg --remove sandbox
[ ! -e /usr/bin/sandbox ] || fail "remove has left the program"
[ -e $profile ] || fail "remove has taken a file that somebody edited"
dpkg --purge sandbox
[ ! -e $profile ] || fail "purge has left the profile"
[ -d /home/user/.local/state/sandbox ] || fail "purge has taken what a user can undo"
! dpkg --status sandbox 2>/dev/null || fail "dpkg still knows it"
echo "all done"
INSIDE
