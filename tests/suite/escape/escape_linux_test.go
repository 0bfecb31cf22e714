package escape

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
)

// prey is what the workload is after, outside.
type prey struct {
	*lab
	secret string // a file of the supervisor's user, in no folder
	pid    int    // a process of the supervisor's user
	socket string // in the host's tree, that somebody listens on
	name   string // of an abstract socket
}

const treasure = "the treasure"

// newPrey starts a session with things outside that must stay untouched.
func newPrey(t *testing.T, change func(*api.Config)) *prey {
	p := &prey{name: fmt.Sprintf("@escape-%d", os.Getpid())}
	p.lab = newLab(t, func(l *lab, c *api.Config) {
		change(c)
		put(t, l.work+"/f", "a file")
		put(t, l.home+"/.ssh/id", treasure)
		put(t, l.home+"/beside/file", "host file")
		must(t, os.Chmod(l.home+"/beside", 0o777)) // the mount must refuse, not the mode
		must(t, os.Chmod(l.home+"/beside/file", 0o666))
		p.socket = l.home + "/beside/sock"
		for _, name := range []string{p.socket, p.name} {
			s, err := net.Listen("unix", name)
			must(t, err)
			t.Cleanup(func() { s.Close() })
		}
		must(t, os.Chmod(p.socket, 0o777))
	})
	p.secret = p.home + "/.ssh/id"
	sleeper := exec.Command("sleep", "1000")
	must(t, sleeper.Start())
	t.Cleanup(func() {
		_ = sleeper.Process.Kill()
		if err := sleeper.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("the process outside: %v", err)
		}
	})
	p.pid = sleeper.Process.Pid
	return p
}

// TestEscape runs each attempt in one jail.
func TestEscape(t *testing.T) { overBridges(t, escapes) }

func escapes(t *testing.T, b hypervisor.Bridge) {
	p := newPrey(t, func(c *api.Config) { c.Bridge = b })
	p.attempt(t, attempts, "")
	p.unharmed(t)
}

// attempt is a script that exits 0 if it got what it wanted.
type attempt struct {
	name, script string
	// own: in a user namespace of its own, what it wants is its own.
	own bool
}

// attempts are what every jail has to stand. The names in capitals are replaced.
var attempts = []attempt{
	// the host's files
	{name: "a secret", script: "cat SECRET"},
	{name: "a secret through PID 1's root", script: "cat /proc/1/rootSECRET"},
	{name: "through our own root", script: "cat /proc/self/rootSECRET"},
	{name: "through a thread's root", script: "cat /proc/thread-self/rootSECRET"},
	{name: "through PID 1's directory", script: "cat /proc/1/cwdSECRET"},
	{name: "through the supervisor's root", script: "cat /proc/SELF/rootSECRET"},
	{name: "PID 1's descriptors", script: "ls /proc/1/fd/ | grep . || ls -l /proc/1/map_files/ | grep ."},
	{name: "PID 1's memory", script: "head -c 1 /proc/1/mem || cat /proc/1/environ || cat /proc/1/maps | grep ."},
	{name: "PID 1's memory by process_vm_readv", script: "ATTACK vmread 1"},
	{name: "PID 1's descriptors by pidfd_getfd", script: "ATTACK getfd 1"},
	{name: "the supervisor's descriptors by pidfd_getfd", script: "[ ! -e /proc/SELF ] && ATTACK getfd SELF"},
	{name: "our descriptors", script: `for f in /proc/self/fd/*; do case $(readlink $f) in pipe:*|/dev/null|/proc/*|"") ;; *) readlink $f; exit 0; esac; done; exit 1`},
	{name: "writing beside the folder", script: "echo x >HOME/beside/file || echo x >HOME/beside/new || rm HOME/beside/file"},
	{name: "writing beside through PID 1's root", script: "echo x >/proc/1/rootHOME/beside/file"},
	{name: "writing above the folder", script: "cd WORK && (echo x >../beside/file || echo x >../new)"},
	{name: "the folder itself", script: "mv WORK WORK.old || rmdir WORK || ln -s / HOME/beside/l"},
	{name: "symlinks out of the folder", script: "cd WORK && ln -sf ../beside/file l && echo x >l"},
	{name: "a hard link into the folder", script: "ln HOME/beside/file WORK/stolen"},
	{name: "a hard link out of the folder", script: "ln WORK/f HOME/beside/stolen"},
	{name: "the undo log", script: "ls UNDO | grep . || cat UNDO/lock || echo x >UNDO/x"},
	{name: "the control socket's directory", script: "ls RUNDIR | grep ."},
	{name: "the control socket", script: "ATTACK connect CONTROL"},
	{name: "a raw handle of the file system", script: "ATTACK handle /"},
	{name: "setuid programs", script: "ATTACK setuid /usr/bin/su || ATTACK setuid /bin/mount", own: true},
	{name: "a setuid file", script: "cd WORK && cp /bin/true s && chmod u+s s && test -u s", own: true},
	{name: "a device", script: "mknod WORK/d b 8 0 || mknod /tmp/d c 1 1 || cat /dev/mem || cat /dev/kmsg || ls /dev/fuse /dev/kvm"},
	{name: "a block device", script: "for d in /dev/[svxn][dv]*; do head -c 1 $d >/dev/null && exit 0; done; exit 1"},
	// the host's processes
	// A process inside may have the number of one outside ("processes outside" finds it if that one is seen).
	{name: "a signal to the host", script: "if [ ! -e /proc/PID ]; then kill -9 PID || kill -0 PID && exit 0; fi; [ ! -e /proc/SELF ] && kill -0 SELF"},
	{name: "a signal to PID 1", script: "kill -9 1; kill -STOP 1; kill -SEGV 1; test ! -e /proc/1"},
	{name: "tracing PID 1", script: "ATTACK ptrace 1"},
	{name: "tracing a child", script: "sleep 5 & ATTACK ptrace $!; status=$?; kill $!; exit $status"},
	{name: "processes outside", script: "ls -d /proc/PID /proc/SELF && grep -l escape /proc/SELF/cmdline"},
	{name: "priorities outside", script: "[ ! -e /proc/PID ] && renice 5 PID"},
	{name: "limits outside", script: "[ ! -e /proc/PID ] && prlimit --pid PID --nofile=1:1"},
	{name: "the namespaces of PID 1", script: "nsenter -t 1 -a true || nsenter -t 1 -m true || ATTACK setns /proc/1/ns/mnt || ATTACK setns /proc/1/ns/user"},
	// sockets and buses
	{name: "an abstract socket", script: "ATTACK connect NAME"},
	{name: "a socket in the host's tree", script: "ATTACK connect SOCKET"},
	{name: "system sockets", script: "find /run /var/run -type s 2>/dev/null | grep -vx /run/sandbox/steps.sock"},
	{name: "desktop sockets", script: "find /tmp /tmp/.X11-unix /run/user -type s 2>/dev/null | grep ."},
	{name: "the system bus", script: "ATTACK connect /run/dbus/system_bus_socket || ATTACK connect /run/systemd/private || ATTACK connect /var/run/docker.sock"},
	{name: "a loopback service outside", script: "ATTACK dial ADDRESS"},
	{name: "a raw socket", script: "ATTACK socket 17 3 || ATTACK socket 2 3 || ATTACK socket 40 1"},
	// the kernel
	{name: "kernel settings", script: "echo 1 >/proc/sys/vm/drop_caches || echo x >/proc/sys/kernel/core_pattern || echo 0 >/proc/sys/kernel/yama/ptrace_scope || echo x >/proc/sys/kernel/hostname || echo x >/proc/sys/kernel/modprobe"},
	{name: "kernel triggers", script: "echo b >/proc/sysrq-trigger || echo 1 >/proc/sys/net/ipv4/ip_forward || echo 1 >/sys/kernel/uevent_helper || cat /proc/kcore | head -c 1 | grep -q ."},
	{name: "control groups", script: "mkdir /sys/fs/cgroup/escape || mkdir /sys/fs/cgroup/*/escape || echo $$ >/sys/fs/cgroup/cgroup.procs || echo x >/sys/fs/cgroup/release_agent"},
	{name: "mounting", script: "mount -t tmpfs x /tmp || mount --bind / WORK || umount -l /tmp || mount -o remount,rw / || ATTACK mountsetattr /", own: true},
	{name: "a user namespace", script: "unshare -Ur true || unshare -U true || ATTACK unshare 0x10000000 || ATTACK unshare 0x20000", own: true},
	{name: "key rings", script: "keyctl show || ATTACK keyctl"},
	{name: "terminal input", script: "ATTACK tiocsti"},
	// Those of file systems with keys (fscrypt), of btrfs, FAT, ext4 and XFS, KVM, TUN, loop devices and graphics, on a directory of the host and on one's own; TIOCSETD, TIOCCONS.
	{name: "requests to file systems and devices", script: "for at in / . /dev/null; do if ATTACK ioctl $at 0xc0506617 0xc0406618 0xc0406619 0x800c6613 0x40806685 0x40086602 0x401c5820 0x5000940e 0x50009403 0x40047211 0x6609 0xc0045877 0x4030582a " +
		"0xae00 0xae01 0x400454ca 0x4c00 0x4c82 0xc0106400 0x5423 0x541d 0x5412 0x541c; then exit 0; fi; done; exit 1"},
	{name: "io_uring", script: "ATTACK iouring"},
	{name: "bpf", script: "ATTACK bpf"},
	{name: "becoming root", script: "ATTACK setresuid || su -c true </dev/null || sudo -n true", own: true},
	{name: "adding a capability", script: "ATTACK capset", own: true},
	{name: "taking the filter off", script: "ATTACK seccomp"},
	{name: "our own cover", script: "umount /proc; umount /dev; umount HOME/.ssh && cat SECRET"},
	{name: "the FUSE connection", script: "ls /sys/fs/fuse/connections/* 2>/dev/null | grep . && echo 1 >/sys/fs/fuse/connections/*/abort"},
}

// attempt runs each script, if wrap is not empty by that program. No script may succeed, nor print the treasure.
func (p *prey) attempt(t *testing.T, attempts []attempt, wrap string) {
	session := actorsSocket(t, p)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer tcp.Close()
	vars := strings.NewReplacer("HOME", p.home, "WORK", p.work, "UNDO", p.undo, "RUNDIR", p.run, "SECRET", p.secret,
		"SOCKET", p.socket, "CONTROL", session, "ADDRESS", tcp.Addr().String(), "PID", strconv.Itoa(p.pid), "NAME", p.name, "ATTACK", p.work+"/.attacker attack", "SELF", strconv.Itoa(os.Getpid()))
	for _, a := range attempts {
		t.Run(a.name, func(t *testing.T) {
			script := "cd " + p.work + "; " + vars.Replace(a.script)
			if wrap != "" {
				script = wrap + " sh -c '" + strings.ReplaceAll(script, "'", `'\''`) + "'"
			}
			r := p.sh(script)
			t.Log(r.out)
			if r.err != nil || r.Status.Code == 0 || strings.Contains(r.out, treasure) {
				t.Errorf("%s:\n%+v", script, r)
			}
		})
	}
}

// unharmed checks what lies outside, and that the jail lives.
func (p *prey) unharmed(t *testing.T) {
	if b, err := os.ReadFile(p.home + "/beside/file"); err != nil || string(b) != "host file" {
		t.Errorf("the file outside: %q, %v", b, err)
	}
	for _, f := range []string{p.home + "/new", p.home + "/beside/new", p.home + "/beside/stolen", p.home + "/beside/l", p.work + "/stolen"} {
		if _, err := os.Lstat(f); err == nil {
			t.Errorf("%s was made", f)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(p.work+"/s", &st); err == nil && st.Mode&unix.S_ISUID != 0 {
		t.Error("a setuid file on the host")
	}
	p.works("cat f")
}

// actorsSocket finds the session's control socket.
func actorsSocket(t *testing.T, p *prey) string {
	t.Helper()
	found, err := filepath.Glob(p.run + "/*.sock")
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	return found[0]
}
