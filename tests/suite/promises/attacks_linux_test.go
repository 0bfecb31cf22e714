package promises

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// patience bounds what should happen soon, on any machine.
const patience = 10 * time.Minute

// evil is what would be run, if it were in the right place.
const evil = "#!/bin/sh\necho evil\n"

// escapes act on a terminal.
const escapes = "\x1b]0;evil\x07\x1b[2Kevil"

// fillFolder is what the working folder has: repositories whose configuration leads elsewhere, and files to be changed.
func fillFolder(t testing.TB, dir string) {
	t.Helper()
	for name, text := range map[string]string{
		"a": "first", "b": "second", "tree/c": "third", "tree/deep/d": "fourth", "mapped": strings.Repeat("m", 8192), "plain": "old\n",
		".git/config": "[core]\n\trepositoryformatversion = 0\n\thooksPath = .husky\n[include]\n\tpath = ../shared.cfg\n[extensions]\n\tworktreeConfig = true\n",
		".git/HEAD":   "ref: refs/heads/main\n", ".git/hooks/pre-commit": "good", ".husky/pre-commit": "good", "shared.cfg": "[user]\n\tname = good\n",
		".git/worktrees/w/commondir": "../..\n", ".git/worktrees/w/HEAD": "ref: refs/heads/w\n", "sub/.git/config": "[core]\n", "sub/.git/HEAD": "ref: refs/heads/main\n",
		"sub/.git/hooks/x.sample": "sample", ".envrc": "good", ".vscode/settings.json": "{}",
	} {
		put(t, dir+"/"+name, text)
	}
	for _, sub := range []string{"", "/sub"} {
		must(t, errors.Join(os.MkdirAll(dir+sub+"/.git/objects", 0o755), os.MkdirAll(dir+sub+"/.git/refs/heads", 0o755)))
	}
}

// changeFolder does all kinds of changes, and leaves a process behind that has made one.
func changeFolder(p *prey) error {
	all := []error{
		os.WriteFile("a", []byte("changed"), 0o644), os.Truncate("b", 2), os.Chmod("b", 0o600), os.Rename("tree", "moved"),
		os.WriteFile("moved/c", []byte("changed"), 0o644), os.Remove("moved/deep/d"), os.Remove("moved/deep"), os.Symlink("nowhere", "new-link"), os.Mkdir("new-dir", 0o755),
		os.WriteFile("codeagent.toml", []byte("a = "+strings.Repeat("[", 200)+"\n"), 0o644),
		os.WriteFile("new-dir/b", []byte("to be linked"), 0o644), os.Rename("new-dir/b", "over"),
	}
	f, err := os.OpenFile("mapped", os.O_RDWR, 0)
	if err == nil {
		var m []byte
		if m, err = unix.Mmap(int(f.Fd()), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
			copy(m, "written through memory")
			err = unix.Munmap(m)
		}
		err = errors.Join(err, f.Close())
	}
	all = append(all, err)
	if os.Link("a", "other-name") == nil { // 9P and some file systems have none
		all = append(all, os.WriteFile("other-name", []byte("through another name"), 0o644))
	}
	left := exec.Command("sh", "-c", "echo left >left-behind; exec >&-; exec sleep 1000")
	out, err := left.StdoutPipe()
	all = append(all, err)
	if err == nil {
		all = append(all, left.Start())
		_, _ = out.Read(make([]byte, 1)) // until it has written
	}
	if err := errors.Join(all...); err != nil {
		return fmt.Errorf("the folder cannot be used: %w", err)
	}
	return nil
}

// writeEscapes puts them where people look.
func writeEscapes(*prey) error {
	return errors.Join(os.WriteFile("n"+escapes, []byte(escapes+"\n"), 0o644), os.WriteFile("mapped", []byte("new "+escapes+"\n"), 0o644))
}

// socket is one of a kind, until it is closed.
func connect(domain, kind int, to unix.Sockaddr) func() error {
	return func() error {
		fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if to == nil {
			return nil
		}
		return unix.Connect(fd, to)
	}
}

func reachNetwork(p *prey) error {
	far := &unix.SockaddrInet4{Port: 53, Addr: [4]byte{192, 0, 2, 1}} // a documentation's address
	return tried(way{"loopback", connect(unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Port: p.Port, Addr: p.TCP})},
		way{"datagrams", connect(unix.AF_INET, unix.SOCK_DGRAM, far)}, way{"another host", connect(unix.AF_INET, unix.SOCK_STREAM, far)},
		way{"abstract socket", connect(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: p.Queue})},
		way{"raw", connect(unix.AF_INET, unix.SOCK_RAW, nil)}, way{"packets", connect(unix.AF_PACKET, unix.SOCK_RAW, nil)}, way{"the host of a machine", connect(unix.AF_VSOCK, unix.SOCK_STREAM, &unix.SockaddrVM{CID: 2, Port: 1})})
}

func reachSocket(paths []string) error {
	var all []error
	for _, s := range paths {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET} {
			for _, via := range []string{"", "/proc/self/root", "/proc/1/root"} {
				if via != "" && len(via+s) > 107 {
					continue
				}
				if connect(unix.AF_UNIX, kind, &unix.SockaddrUnix{Name: via + s})() == nil {
					all = append(all, errors.New(via+s))
				}
			}
		}
	}
	return errors.Join(all...)
}

func reachSockets(p *prey) error { return reachSocket(p.Sockets) }

func reachControl(p *prey) error {
	if len(p.Control) == 0 {
		return errors.New("no control socket was told of")
	}
	err := reachSocket(p.Control)
	if seen := sockets(p.Runtime); len(seen) > 0 && p.Cell.Isolation != "landlock" { // whose names can be seen
		err = errors.Join(err, fmt.Errorf("%q can be seen", seen))
	}
	return err
}

// abuseSteps asks for what only people may.
func abuseSteps(*prey) error {
	path := os.Getenv("SANDBOX_STEPS")
	var all []error
	for _, line := range []string{
		`{"method":"undo","params":{"count":1}}`, `{"id":1,"method":"safeguard.approve"}`, `{"ended":true}`, `[]`, `{"command":1}`, strings.Repeat("x", 20<<10),
	} {
		c, err := net.Dial("unix", path)
		if err != nil {
			return fmt.Errorf("the socket is not there: %w", err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Write([]byte(line + "\n")); err == nil {
			if a, _ := bufio.NewReader(c).ReadString('\n'); a != "" && !strings.Contains(a, `"error"`) {
				all = append(all, fmt.Errorf("%.50s: %s", line, a))
			}
		}
		_ = c.Close()
	}
	return errors.Join(all...)
}

// holdTerminal looks for the terminal of the user in what any process inside has open.
func holdTerminal(p *prey) error {
	all, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	all = append(all, "/dev/tty", "/dev/console", "/dev/stdin")
	for _, f := range all {
		var st unix.Stat_t
		if unix.Stat(f, &st) == nil && uint64(st.Dev) == p.TTY && st.Ino == p.TTYNode {
			return errors.New(f)
		}
	}
	return nil
}

// openDirectories looks for one of the host in what it was given.
func openDirectories(p *prey) error {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, n := range names {
		if b, err := os.ReadFile("/proc/self/fd/" + n.Name() + "/outside/file"); err == nil {
			return fmt.Errorf("descriptor %s leads to the host: %q", n.Name(), b)
		}
	}
	return nil
}

// requests are those of file systems with keys (fscrypt), of btrfs, FAT, ext4 and XFS, of KVM, TUN, loop devices and graphics; and what types into a
// terminal, takes the console's output, or loads a line discipline.
var requests = []uintptr{
	0xc0506617, 0xc0406618, 0xc0406619, 0x800c6613, 0x40806685, 0x40086602, 0x401c5820, 0x5000940e, 0x50009403, 0x40047211, 0x6609, 0xc0045877, 0x4030582a,
	0xae00, 0xae01, 0x400454ca, 0x4c00, 0x4c82, 0xc0106400, 0x5423, 0x541d, 0x5412, 0x541c,
}

func makeRequests(p *prey) error {
	if p.Cell.Isolation == "vm" { // which has file systems and terminals of its own: the host's is the folder alone
		return requestsTo(p.Work)
	}
	return errors.Join(requestsTo("/"), requestsTo(p.Work), requestsTo(p.Homes[0]), requestsTo(p.Outside+"/file"), requestsTo("/dev/null"), requestsTo("/dev/stdin"))
}

func requestsTo(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	block := make([]byte, 4096)
	for _, r := range requests {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), r, uintptr(unsafe.Pointer(&block[0]))); errno != unix.EPERM && errno != unix.ENOTTY {
			return fmt.Errorf("%s: %x: %w", path, r, errno)
		}
	}
	return nil
}

// plantHooks puts something that git or an editor would run into every place, by several ways. Whether it is there is looked at outside.
func plantHooks(p *prey) error {
	write := func(names ...string) {
		for _, n := range names {
			_ = os.WriteFile(n, []byte(evil), 0o755)
		}
	}
	write(".git/hooks/pre-commit", ".git/hooks/post-checkout", ".git/config", ".git/config.worktree", ".husky/pre-commit", ".husky/pre-push", "shared.cfg",
		".git/worktrees/w/commondir", ".git/worktrees/w/config.worktree", "sub/.git/hooks/pre-commit", "sub/.git/config", ".envrc", ".bashrc", ".vscode/tasks.json")
	write("ready", "sub/ready")
	for _, to := range []string{".git/hooks/pre-commit", "sub/.git/hooks/pre-commit", ".husky/pre-commit", "shared.cfg", ".envrc"} {
		_ = os.Rename("ready", to)
		_ = os.Link("sub/ready", to)
		_ = unix.Renameat2(unix.AT_FDCWD, "sub/ready", unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
		write("ready", "sub/ready")
	}
	if os.Link(".git/config", "linked") == nil {
		write("linked")
	}
	// A repository is moved away, and back with a hook.
	_ = os.Rename("sub", "old")
	_ = os.Mkdir("sub", 0o755)
	_ = os.Rename("old/.git", "sub/.git")
	write("sub/.git/hooks/pre-commit")
	for _, git := range []string{".git", "sub/.git"} {
		if os.Rename(git, "plain-name") == nil {
			write("plain-name/hooks/pre-commit", "plain-name/config")
			_ = os.Rename("plain-name", git)
		}
	}
	return nil
}

// limitFirst tries it on the first process, and on whoever has started this one.
func limitFirst(p *prey) error {
	var all []error
	targets := []int{1}
	if p.Cell.Isolation == "landlock" { // where 1 is the host's
		targets = []int{os.Getppid()}
	}
	for _, pid := range targets {
		file := func(name string) way {
			return way{name, func() error {
				b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
				if err == nil && len(b) == 0 {
					return errors.New("empty")
				}
				return err
			}}
		}
		all = append(all, tried(file("environ"), file("maps"), file("mem"), file("auxv"),
			way{"limits", func() error { return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: 1}, nil) }},
			way{"ptrace", func() error { return unix.PtraceAttach(pid) }}))
	}
	return errors.Join(all...)
}

func gainRights(p *prey) error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	var all []error
	sets := []string{"CapPrm:", "CapEff:", "CapAmb:"}
	if p.Cell.Isolation == "jail" || os.Getuid() == 0 {
		sets = append(sets, "CapBnd:") // from which an ordinary user cannot take anything away, and with no_new_privs nobody gets anything
	}
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		if len(f) > 1 && slices.Contains(sets, f[0]) && strings.Trim(f[1], "0") != "" || len(f) > 1 && f[0] == "NoNewPrivs:" && f[1] != "1" {
			all = append(all, errors.New(strings.TrimSpace(line)))
		}
	}
	if os.Getuid() == 0 && p.Cell.Isolation != "landlock" {
		all = append(all, errors.New("root"))
	}
	_ = os.WriteFile("setuid", []byte("#!/bin/sh\n"), 0o755)
	_ = unix.Chmod("setuid", 0o6755)
	if st, err := os.Stat("setuid"); err == nil && st.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		all = append(all, errors.New("a setuid file"))
	}
	if unix.Mknod("device", unix.S_IFBLK|0o666, int(unix.Mkdev(8, 0))) == nil {
		all = append(all, errors.New("a device"))
	}
	if unix.Setxattr("a", "security.capability", []byte{0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0) == nil {
		all = append(all, errors.New("a capability on a file"))
	}
	return errors.Join(all...)
}

func askKernel(p *prey) error {
	call := func(name string, nr uintptr, args ...uintptr) way {
		return way{name, func() error {
			a := append(args, 0, 0, 0, 0)
			if _, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], 0, 0); errno == unix.EPERM || errno == unix.ENOSYS {
				return errno
			}
			return nil // it got past the filter
		}}
	}
	return tried(call("bpf", unix.SYS_BPF), call("modules", unix.SYS_INIT_MODULE), call("modules of files", unix.SYS_FINIT_MODULE, ^uintptr(0)), call("kexec", unix.SYS_KEXEC_LOAD),
		call("io_uring", unix.SYS_IO_URING_SETUP, 1), call("keys", unix.SYS_KEYCTL, 0, ^uintptr(3), 1), call("mount", unix.SYS_MOUNT), call("umount", unix.SYS_UMOUNT2),
		call("pivot_root", unix.SYS_PIVOT_ROOT), call("a new mount", unix.SYS_FSOPEN), call("namespaces", unix.SYS_UNSHARE, unix.CLONE_NEWUSER), call("others' namespaces", unix.SYS_SETNS),
		call("handles", unix.SYS_OPEN_BY_HANDLE_AT), call("counters", unix.SYS_PERF_EVENT_OPEN), call("page faults", unix.SYS_USERFAULTFD), call("clocks", unix.SYS_CLOCK_SETTIME),
		call("reboot", unix.SYS_REBOOT), call("swap", unix.SYS_SWAPON))
}

// restrictedMain forbids itself by Landlock to write anything, and writes.
func restrictedMain(path string) int {
	runtime.LockOSThread()
	handled := uint64(unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_SYM)
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled), 0)
	if errno == unix.ENOSYS || errno == unix.EOPNOTSUPP {
		return 0 // the session, or the kernel, says that there is none
	}
	if errno != 0 {
		fmt.Println("landlock:", errno)
		return 1
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		fmt.Println("landlock:", err)
		return 1
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		fmt.Println("landlock:", errno)
		return 1
	}
	err := tried(way{"write", func() error { return writeHere("a", unix.O_WRONLY) }}, way{"create", func() error { return writeHere(path, unix.O_WRONLY|unix.O_CREAT) }},
		way{"mkdir", func() error { return unix.Mkdir(path+".d", 0o755) }}, way{"unlink", func() error { return unix.Unlink("plain") }}, way{"symlink", func() error { return unix.Symlink("x", path+".l") }})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func writeHere(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}
