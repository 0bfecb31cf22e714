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
func newPrey(t *testing.T, b hypervisor.Bridge) *prey {
	p := &prey{name: fmt.Sprintf("@escape-%d", os.Getpid())}
	p.lab = newLab(t, func(l *lab, c *api.Config) {
		c.Bridge = b
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

// TestEscape runs each attempt in one jail. Every script exits 0 if it got what
// it wanted.
func TestEscape(t *testing.T) { overBridges(t, escapes) }

func escapes(t *testing.T, b hypervisor.Bridge) {
	p := newPrey(t, b)
	session := actorsSocket(t, p)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer tcp.Close()
	vars := strings.NewReplacer("HOME", p.home, "WORK", p.work, "UNDO", p.undo, "RUNDIR", p.run, "SECRET", p.secret,
		"SOCKET", p.socket, "CONTROL", session, "ADDRESS", tcp.Addr().String(), "PID", strconv.Itoa(p.pid), "ATTACK", p.work+"/.attacker attack", "SELF", strconv.Itoa(os.Getpid()))
	for _, a := range []struct{ name, script string }{
		// the host's files
		{"a secret", "cat SECRET"},
		{"a secret through PID 1's root", "cat /proc/1/rootSECRET"},
		{"through our own root", "cat /proc/self/rootSECRET"},
		{"through a thread's root", "cat /proc/thread-self/rootSECRET"},
		{"through PID 1's directory", "cat /proc/1/cwdSECRET"},
		{"through the supervisor's root", "cat /proc/SELF/rootSECRET"},
		{"PID 1's descriptors", "ls /proc/1/fd/ | grep . || ls -l /proc/1/map_files/ | grep ."},
		{"PID 1's memory", "head -c 1 /proc/1/mem || cat /proc/1/environ || cat /proc/1/maps | grep ."},
		{"PID 1's memory by process_vm_readv", "ATTACK vmread 1"},
		{"our descriptors", `for f in /proc/self/fd/*; do case $(readlink $f) in pipe:*|/dev/null|/proc/*|"") ;; *) readlink $f; exit 0; esac; done; exit 1`},
		{"writing beside the folder", "echo x >HOME/beside/file || echo x >HOME/beside/new || rm HOME/beside/file"},
		{"writing beside through PID 1's root", "echo x >/proc/1/rootHOME/beside/file"},
		{"writing above the folder", "cd WORK && (echo x >../beside/file || echo x >../new)"},
		{"the folder itself", "mv WORK WORK.old || rmdir WORK || ln -s / HOME/beside/l"},
		{"symlinks out of the folder", "cd WORK && ln -sf ../beside/file l && echo x >l"},
		{"a hard link into the folder", "ln HOME/beside/file WORK/stolen"},
		{"a hard link out of the folder", "ln WORK/f HOME/beside/stolen"},
		{"the undo log", "ls UNDO | grep . || cat UNDO/lock || echo x >UNDO/x"},
		{"the control socket's directory", "ls RUNDIR | grep ."},
		{"the control socket", "ATTACK connect CONTROL"},
		{"a raw handle of the file system", "ATTACK handle /"},
		{"setuid programs", "ATTACK setuid /usr/bin/su || ATTACK setuid /bin/mount"},
		{"a setuid file", "cd WORK && cp /bin/true s && chmod u+s s && test -u s"},
		{"a device", "mknod WORK/d b 8 0 || mknod /tmp/d c 1 1 || cat /dev/mem || cat /dev/kmsg || ls /dev/fuse /dev/kvm"},
		{"a block device", "for d in /dev/[svxn][dv]*; do head -c 1 $d >/dev/null && exit 0; done; exit 1"},
		// the host's processes
		{"a signal to the host", "kill -9 PID || kill -0 PID || kill -0 SELF"},
		{"a signal to PID 1", "kill -9 1; kill -STOP 1; kill -SEGV 1; test ! -e /proc/1"},
		{"tracing PID 1", "ATTACK ptrace 1"},
		{"tracing a child", "sleep 5 & ATTACK ptrace $!; status=$?; kill $!; exit $status"},
		{"processes outside", "ls -d /proc/PID /proc/SELF && grep -l escape /proc/SELF/cmdline"},
		{"priorities outside", "renice 5 PID"},
		{"limits outside", "prlimit --pid PID --nofile=1:1"},
		{"the namespaces of PID 1", "nsenter -t 1 -a true || nsenter -t 1 -m true || ATTACK setns /proc/1/ns/mnt || ATTACK setns /proc/1/ns/user"},
		// sockets and buses
		{"an abstract socket", "ATTACK connect " + p.name},
		{"a socket in the host's tree", "ATTACK connect SOCKET"},
		{"system sockets", "find /run /var/run -type s 2>/dev/null | grep -vx /run/sandbox/steps.sock"},
		{"desktop sockets", "find /tmp /tmp/.X11-unix /run/user -type s 2>/dev/null | grep ."},
		{"the system bus", "ATTACK connect /run/dbus/system_bus_socket || ATTACK connect /run/systemd/private || ATTACK connect /var/run/docker.sock"},
		{"a loopback service outside", "ATTACK dial ADDRESS"},
		{"a raw socket", "ATTACK socket 17 3 || ATTACK socket 2 3 || ATTACK socket 40 1"},
		// the kernel
		{"kernel settings", "echo 1 >/proc/sys/vm/drop_caches || echo x >/proc/sys/kernel/core_pattern || echo 0 >/proc/sys/kernel/yama/ptrace_scope || echo x >/proc/sys/kernel/hostname || echo x >/proc/sys/kernel/modprobe"},
		{"kernel triggers", "echo b >/proc/sysrq-trigger || echo 1 >/proc/sys/net/ipv4/ip_forward || echo 1 >/sys/kernel/uevent_helper || cat /proc/kcore | head -c 1 | grep -q ."},
		{"control groups", "mkdir /sys/fs/cgroup/escape || mkdir /sys/fs/cgroup/*/escape || echo $$ >/sys/fs/cgroup/cgroup.procs || echo x >/sys/fs/cgroup/release_agent"},
		{"mounting", "mount -t tmpfs x /tmp || mount --bind / WORK || umount -l /tmp || mount -o remount,rw / || ATTACK mountsetattr /"},
		{"a user namespace", "unshare -Ur true || unshare -U true || ATTACK unshare 0x10000000 || ATTACK unshare 0x20000"},
		{"key rings", "keyctl show || ATTACK keyctl"},
		{"terminal input", "ATTACK tiocsti"},
		{"io_uring", "ATTACK iouring"},
		{"bpf", "ATTACK bpf"},
		{"becoming root", "ATTACK setresuid || su -c true </dev/null || sudo -n true"},
		{"adding a capability", "ATTACK capset"},
		{"taking the filter off", "ATTACK seccomp"},
		{"our own cover", "umount /proc; umount /dev; umount HOME/.ssh && cat SECRET"},
		{"the FUSE connection", "ls /sys/fs/fuse/connections/* 2>/dev/null | grep . && echo 1 >/sys/fs/fuse/connections/*/abort"},
	} {
		t.Run(a.name, func(t *testing.T) {
			script := vars.Replace(a.script)
			r := p.sh("cd " + p.work + "; " + script)
			t.Log(r.out)
			if r.err != nil || r.Status.Code == 0 || strings.Contains(r.out, treasure) {
				t.Errorf("%s:\n%+v", script, r)
			}
		})
	}
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
	p.works("cat f") // and the jail lives
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
