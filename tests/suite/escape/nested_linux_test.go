package escape

import (
	"slices"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// nested are what root in a user namespace of its own might try against the view.
var nested = []attempt{
	{name: "taking a cover off", script: "umount HOME/.ssh || umount -l HOME/.ssh; cat SECRET"},
	{name: "moving a cover", script: "mkdir -p /tmp/b; mount --move HOME/.ssh /tmp/b; cat SECRET || cat /tmp/b/id"},
	{name: "a bind without covers", script: "mkdir -p /tmp/b; mount --bind HOME /tmp/b && cat /tmp/b/.ssh/id"},
	{name: "a bind of the root", script: "mkdir -p /tmp/b; mount --bind / /tmp/b && cat /tmp/bSECRET"},
	{name: "a bind with covers", script: "mkdir -p /tmp/b; mount --rbind HOME /tmp/b; umount /tmp/b/.ssh || umount -l /tmp/b/.ssh; cat /tmp/b/.ssh/id"},
	{name: "an overlay over covers", script: "mkdir -p /tmp/b /tmp/u /tmp/w; for o in lowerdir=HOME,upperdir=/tmp/u,workdir=/tmp/w lowerdir=HOME:/tmp/u lowerdir=/:/tmp/u; do mount -t overlay x -o $o,userxattr /tmp/b && cat /tmp/b/.ssh/id /tmp/bSECRET; done; exit 1"},
	{name: "a copy of the tree", script: "ATTACK opentree HOME .ssh/id"},
	{name: "writable again", script: "mount -o remount,bind,rw HOME/beside && echo x >HOME/beside/file; mount -o remount,bind,rw / && echo x >HOME/beside/file; ATTACK mountsetattr /"},
	{name: "a writable bind", script: "mkdir -p /tmp/b; mount --rbind HOME/beside /tmp/b && mount -o remount,bind,rw /tmp/b && echo x >/tmp/b/file"},
	{name: "another root", script: "mkdir -p /tmp/r; mount -t tmpfs x /tmp/r; mkdir /tmp/r/old; cd /tmp/r; pivot_root . old; umount -l /old/HOME/.ssh; umount -l /old; cat /old/SECRET SECRET"},
	{name: "the first process's root", script: "chroot /proc/1/root cat SECRET"},
	{name: "the first process's namespaces", script: "nsenter -t 1 -U true || nsenter -t 1 -m cat SECRET || nsenter -t 1 -n true"},
	{name: "a disk", script: "mkdir -p /tmp/b; for d in $(awk '$4 !~ /name/ && NF {print $4}' /proc/partitions); do mknod /tmp/$d b 254 0; mount -t ext4 /dev/$d /tmp/b || mount -t ext4 /tmp/$d /tmp/b && exit 0; done; exit 1"},
	{name: "an image", script: "head -c 1000000 /dev/zero >/tmp/i; mkfs.ext4 -q /tmp/i; mkdir -p /tmp/b; mount -o loop /tmp/i /tmp/b || mount -t ext4 /tmp/i /tmp/b"},
	{name: "the control groups of others", script: "mkdir -p /tmp/b; unshare -C mount -t cgroup2 x /tmp/b && mkdir /tmp/b/../escape; mount -t cgroup -o pids x /tmp/b && mkdir /tmp/b/escape; rmdir /sys/fs/cgroup/*"},
	{name: "control groups", script: "mkdir /sys/fs/cgroup/escape || echo $$ >/sys/fs/cgroup/cgroup.procs"},
	{name: "the network outside", script: "unshare -n ATTACK dial ADDRESS || ATTACK dial ADDRESS || ATTACK connect NAME"},
	{name: "the network of the jail", script: "ip link set lo down || ip addr add 10.99.99.99/32 dev lo"},
	{name: "kernel settings of a new /proc", script: "mkdir -p /tmp/p; unshare -pf sh -c 'mount -t proc p /tmp/p && echo x >/tmp/p/sys/kernel/core_pattern || echo b >/tmp/p/sysrq-trigger || echo 1 >/tmp/p/sys/vm/drop_caches'"},
	{name: "processes outside in a new /proc", script: "mkdir -p /tmp/p; mount -t proc p /tmp/p && ls -d /tmp/p/PID /tmp/p/SELF"},
	{name: "a user id of the host", script: "test $(id -u) = 0 && cat /etc/shadow"},
	{name: "the engine of the host", script: "ATTACK connect /run/podman/podman.sock || ATTACK connect /var/run/docker.sock || find / -xdev -name '*podman*.sock' 2>/dev/null | grep ."},
}

// TestNestedEscape: who may make namespaces of his own, for containers, reaches no more of the
// host, neither before nor as root there.
func TestNestedEscape(t *testing.T) {
	require.Program(t, "unshare", "util-linux")
	o := newObjects(t)
	p := newPrey(t, func(c *api.Config) { c.Containers = true })
	o.real(t, p.pid)
	p.works("unshare -Urm sh -c 'mount -t tmpfs x /mnt && test $(id -u) = 0'") // there is something to test
	inherited := slices.DeleteFunc(slices.Clone(attempts), func(a attempt) bool { return a.own })
	t.Run("beside", func(t *testing.T) { p.attempt(t, inherited, "") })
	t.Run("inside", func(t *testing.T) { p.attempt(t, inherited, "unshare -Urm") })
	t.Run("mounts", func(t *testing.T) { p.attempt(t, nested, "unshare -Urm") })
	t.Run("unnamed", func(t *testing.T) { p.attempt(t, o.attempts(), "unshare -Urm") })
	o.unharmed(t)
	p.unharmed(t)
}
