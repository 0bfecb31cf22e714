//go:build linux

package mediate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestMBSemantics runs the same calls natively and inside, as root and as an ordinary
// user, and compares each result.
func TestMBSemantics(t *testing.T) { compareSemantics(t, 0, true) }

// TestMBSemanticsOpened does without the shorter way for folders with nothing mounted below.
func TestMBSemanticsOpened(t *testing.T) { compareSemantics(t, 0, false) }

// Started as root, the workload is another user, and the folder's files are shown as
// its own.
func TestMBSemanticsMapped(t *testing.T) {
	require.Root(t)
	compareSemantics(t, 61000, true)
	compareSemantics(t, 61000, false)
}

func TestMBSemanticsUser(t *testing.T) {
	if require.AsUser(t) {
		compareSemantics(t, 0, true)
		compareSemantics(t, 0, false)
	}
}

func compareSemantics(t *testing.T, uid int, bare bool) {
	plain, j := newJail(t), newJail(t)
	plain.uid, j.uid, j.covered = uid, uid, !bare
	if uid != 0 {
		check(t, os.Chown(plain.out, uid, uid))
		check(t, os.Chown(j.out, uid, uid))
	}
	want := strings.Split(plain.native("semantics").ok(), "\n")
	got := strings.Split(j.start("semantics").ok(), "\n")
	for i := range max(len(want), len(got)) {
		w, g := "nothing", "nothing"
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g {
			t.Errorf("native:   %s\nmediated: %s", w, g)
		}
	}
	if len(want) < 150 {
		t.Errorf("only %d results", len(want))
	}
	if n := j.hooks.begun(); n != 0 {
		t.Errorf("%d operations were begun and not ended", n)
	}
	if n := openFiles(t); n > 200 {
		t.Errorf("%d descriptors are open", n)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(d)
}

// result says what a call returned and how its file is then.
func (w *workload) result(what string, err error, paths ...string) {
	line := fmt.Sprintf("%s: %v", what, err)
	for _, p := range paths {
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			line += fmt.Sprintf(", %s %v", p, err)
			continue
		}
		line += fmt.Sprintf(", %s %o n%d", p, st.Mode, st.Nlink)
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			data, _ := os.ReadFile(p)
			line += fmt.Sprintf(" %q", data)
		}
	}
	w.say("%s", line)
}

// opened opens a file, writes to it, and says what became of it.
func (w *workload) opened(path string, flags int, mode uint32) {
	fd, err := unix.Open(path, flags, mode)
	what := fmt.Sprintf("open %.60s %#x %o", path, flags, mode)
	if err != nil {
		w.result(what, err)
		return
	}
	var st unix.Stat_t
	_ = unix.Fstat(fd, &st)
	owned := int(st.Uid) == os.Getuid()
	_, werr := unix.Write(fd, []byte("w"))
	fl, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	cloexec, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	_ = unix.Close(fd)
	w.result(fmt.Sprintf("%s = %d owner %v write %v fl %#x fd %d", what, fd, owned, werr, fl&^(unix.O_NOFOLLOW|unix.O_TMPFILE), cloexec), nil)
}

func put(path, content string) { _ = os.WriteFile(path, []byte(content), 0o644) }

func semantics(w *workload) {
	unix.Umask(0o022)
	w.opens()
	w.names()
	w.renames()
	w.links()
	w.attributes()
	w.descriptors()
	w.nameless()
	w.places()
	w.sockets()
	w.statfses()
}

func (w *workload) opens() {
	const wr, rdwr, creat, excl, trunc = unix.O_WRONLY, unix.O_RDWR, unix.O_CREAT, unix.O_EXCL, unix.O_TRUNC
	put("f", "content")
	put("shut", "content")
	_ = os.Chmod("shut", 0o400)
	_ = os.Mkdir("d", 0o755)
	_ = os.Mkdir("closed", 0o555)
	_ = os.Symlink("f", "l")
	_ = os.Symlink("nowhere", "dangling")
	_ = os.Symlink("loop", "loop")
	_ = os.Symlink("d", "dl")
	long := strings.Repeat("n", 255)
	for _, path := range []string{"f", "new", "d", "d/", "d/new", "f/", "f/x", "new/", "none/x", "l", "dangling", "loop", "dl/x", "loop/x", "",
		".", "..", "d/..", "d/.", "./f", "d/../f", "shut", "closed/x", long, long + "n", "d/" + strings.Repeat("p/", 2100), "/", "//", "d//y"} {
		for _, flags := range []int{wr, rdwr, wr | creat, rdwr | creat | excl, wr | creat | trunc, unix.O_RDONLY | creat, unix.O_RDONLY | trunc,
			wr | unix.O_NOFOLLOW, wr | creat | unix.O_NOFOLLOW, wr | unix.O_DIRECTORY, rdwr | unix.O_APPEND | unix.O_CLOEXEC, unix.O_PATH | wr,
			wr | unix.O_NONBLOCK | unix.O_SYNC, 3} {
			w.opened(path, flags, 0o666)
		}
	}
	w.result("opened", nil, "f", "new", "d/new", "nowhere", "d/x", "d/y", "shut")
	w.opened("modes", wr|creat, 0o7)
	w.opened("modes2", wr|creat, 0o1777)
	w.result("modes", nil, "modes", "modes2")
	_ = unix.Mkfifo("fifo", 0o644)
	w.opened("fifo", wr|unix.O_NONBLOCK, 0)
	w.opened("fifo", rdwr|unix.O_NONBLOCK, 0)
	w.opened("fifo", wr|creat|excl, 0)
	w.opened("/dev/null", wr|trunc, 0)
	for _, path := range []string{".", "d", "f", "none", "dl", "d/"} {
		w.opened(path, unix.O_TMPFILE|rdwr, 0o666)
		w.opened(path, unix.O_TMPFILE|unix.O_RDONLY, 0o666)
	}
	fd, err := unix.Open("f", rdwr|unix.O_APPEND, 0)
	w.result("append", err)
	_, _ = unix.Seek(fd, 0, 0)
	_, _ = unix.Write(fd, []byte("end"))
	w.result("appended", unix.Ftruncate(fd, 4), "f")
	_ = unix.Close(fd)
	_, err = unix.Openat(99, "f", wr, 0)
	w.result("openat 99", err)
	file, _ := unix.Open("f", unix.O_RDONLY, 0)
	for _, p := range []string{"x", "", ".."} {
		_, err = unix.Openat(file, p, wr|creat, 0)
		w.result("openat file "+p, err)
	}
	dir, _ := unix.Open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	at, err := unix.Openat(dir, "at", wr|creat, 0o600)
	w.result("openat dir", err, "d/at")
	_ = unix.Close(at)
	_ = unix.Close(dir)
	_ = unix.Close(file)
}

func (w *workload) names() {
	long := strings.Repeat("m", 255)
	for _, p := range []string{"f", "d", "d/", "made", "made2/", "made/sub", "none/x", "l", "dangling", "dangling/", "loop/x", ".", "..", "/", "",
		"d/.", "f/x", long, long + "m", "dl/made", "closed/x"} {
		short := fmt.Sprintf("%.40s", p)
		w.result("mkdir "+short, unix.Mkdir(p, 0o7777))
		if p != "/" { // what is made natively in the machine's root would stay there
			w.result("mknod "+short, unix.Mknod(p+"n", unix.S_IFIFO|0o666, 0))
		}
		w.result("mknod slash "+short, unix.Mknod(p, unix.S_IFREG|0o600, 0))
		w.result("symlink "+short, unix.Symlink("f", p))
		w.result("unlink "+short, unix.Unlink(p))
		w.result("rmdir "+short, unix.Rmdir(p))
	}
	w.result("after", nil, "f", "d", "made", "made2", "madenn", "fn", "dl", "l", "dangling")
	_ = os.WriteFile("f", []byte("content"), 0o644)
	_ = os.Symlink("d", "dl")
	_ = os.Symlink("f", "l")
	_ = os.Mkdir("d", 0o755)
	w.result("mknod plain", unix.Mknod("plain", 0o640, 0), "plain")
	w.result("mknod device", unix.Mknod("device", unix.S_IFCHR|0o640, 259), "device")
	w.result("mknod dir", unix.Mknod("directory", unix.S_IFDIR|0o640, 0), "directory")
	w.result("symlink empty", unix.Symlink("", "emptylink"))
	w.result("symlink long", unix.Symlink(strings.Repeat("t", 4096), "longlink"))
	w.result("symlink longest", unix.Symlink(strings.Repeat("t", 4095), "longlink"))
	w.result("unlinkat flags", unix.Unlinkat(unix.AT_FDCWD, "plain", 0x1234))
	w.result("mkdir sticky", unix.Mkdir("sticky", 0o1777), "sticky")
	unix.Umask(0o077)
	w.result("mkdir umask", unix.Mkdir("masked", 0o777), "masked")
	w.opened("maskedfile", unix.O_WRONLY|unix.O_CREAT, 0o666)
	w.result("masked", nil, "maskedfile")
	unix.Umask(0o022)
}

func (w *workload) renames() {
	put("r1", "one")
	put("r2", "two")
	_ = os.MkdirAll("rd/sub", 0o755)
	_ = os.MkdirAll("re", 0o755)
	_ = os.Symlink("r1", "rl")
	names := []string{"r1", "r2", "rd", "re", "rd/sub", "rl", "rnone", ".", "rd/", "r1/", "rnone/x", "rd/sub/x", "../out/r", ".."}
	for _, flags := range []uint{0, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE, unix.RENAME_NOREPLACE | unix.RENAME_EXCHANGE, 1 << 10} {
		for _, from := range names {
			for _, to := range names {
				w.result(fmt.Sprintf("rename %s %s %d", from, to, flags), unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags))
				put("r1", "one")
				put("r2", "two")
				_ = os.MkdirAll("rd/sub", 0o755)
				_ = os.MkdirAll("re", 0o755)
			}
		}
	}
	w.result("renamed", nil, names...)
}

func (w *workload) links() {
	put("k1", "one")
	_ = os.Symlink("k1", "kl")
	_ = os.Mkdir("kd", 0o755)
	put("../out/o", "outside")
	for _, from := range []string{"k1", "kl", "kd", "knone", "kd/", "k1/", "../out/o", ".", "kl/"} {
		for i, flags := range []int{0, unix.AT_SYMLINK_FOLLOW, unix.AT_REMOVEDIR} {
			to := fmt.Sprintf("k-%s-%d", strings.ReplaceAll(from, "/", "_"), i)
			w.result(fmt.Sprintf("link %s %#x", from, flags), unix.Linkat(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags), to)
		}
	}
	for _, to := range []string{"k1", "kl", "kd", "knone/x", "new/", "kd/", ".", "../out/in"} {
		err := unix.Link("k1", to)
		if to == "../out/in" && err == nil { // natively this is one file system
			err = syscall.EXDEV
			_ = os.Remove(to)
		}
		w.result("link to "+to, err)
	}
	w.result("linked", nil, "k1")
	tmp, err := unix.Open(".", unix.O_TMPFILE|unix.O_RDWR, 0o640)
	w.result("tmpfile", err)
	_, _ = unix.Write(tmp, []byte("tmp"))
	w.result("linkat tmpfile", unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", tmp), unix.AT_FDCWD, "fromtmp", unix.AT_SYMLINK_FOLLOW), "fromtmp")
	w.result("linkat again", unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", tmp), unix.AT_FDCWD, "fromtmp", unix.AT_SYMLINK_FOLLOW))
	_ = unix.Close(tmp)
	tmp, err = unix.Open(".", unix.O_TMPFILE|unix.O_RDWR|unix.O_EXCL, 0o640)
	w.result("tmpfile excl", err)
	w.result("linkat excl", unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", tmp), unix.AT_FDCWD, "fromexcl", unix.AT_SYMLINK_FOLLOW))
	_ = unix.Close(tmp)
}

func (w *workload) attributes() {
	put("a", "content")
	_ = os.Mkdir("ad", 0o755)
	_ = os.Symlink("a", "al")
	_ = os.Symlink("anone", "adangling")
	now := unix.Timespec{Nsec: unix.UTIME_NOW}
	omit := unix.Timespec{Nsec: unix.UTIME_OMIT}
	at := unix.Timespec{Sec: 12345, Nsec: 678}
	bad := unix.Timespec{Sec: 1, Nsec: 2e9}
	// Nothing of the machine's may be here: natively they run as who started the test, who can be root.
	for _, p := range []string{"a", "ad", "al", "adangling", "anone", "a/", "ad/", ".", "ad/.", "", "a/x"} {
		for _, mode := range []uint32{0o600, 0o1755, 0o644} {
			if p == "." {
				continue
			}
			w.result(fmt.Sprintf("chmod %s %o", p, mode), unix.Chmod(p, mode), p)
			w.result(fmt.Sprintf("fchmodat2 %s %o", p, mode), unix.Fchmodat(unix.AT_FDCWD, p, mode, unix.AT_SYMLINK_NOFOLLOW), p)
		}
		w.result("chown "+p, unix.Chown(p, -1, -1))
		if p == "/dev/null" { // natively, root would change the host's for everybody
			w.result("access "+p, unix.Access(p, unix.W_OK))
			w.result("truncate "+p, unix.Truncate(p, 3))
			continue
		}
		w.result("chown self "+p, unix.Chown(p, os.Geteuid(), os.Getegid()))
		w.result("lchown "+p, notOurs(unix.Lchown(p, 4242, -1)))
		for i, ts := range [][]unix.Timespec{{at, at}, {now, now}, {omit, at}, {omit, omit}, {now, omit}, {bad, at}} {
			err := unix.UtimesNanoAt(unix.AT_FDCWD, p, ts, 0)
			var st unix.Stat_t
			_ = unix.Stat(p, &st)
			if i == 1 || i == 4 {
				st.Mtim = unix.Timespec{}
			}
			w.result(fmt.Sprintf("utimensat %s %d: %d.%d", p, i, st.Mtim.Sec, st.Mtim.Nsec), err)
		}
		w.result("utimes "+p, unix.Utimes(p, []unix.Timeval{{Sec: 5, Usec: 7}, {Sec: 6, Usec: 8}}))
		w.result("utimes bad "+p, unix.Utimes(p, []unix.Timeval{{Sec: 5, Usec: -7}, {Sec: 6, Usec: 8}}))
		w.result("utimensat link "+p, unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW))
		for _, mode := range []uint32{unix.W_OK, unix.R_OK | unix.W_OK, unix.W_OK | unix.X_OK, 99} {
			w.result(fmt.Sprintf("access %s %d", p, mode), unix.Access(p, mode))
			w.result(fmt.Sprintf("faccessat2 %s %d", p, mode), unix.Faccessat2(unix.AT_FDCWD, p, mode, unix.AT_SYMLINK_NOFOLLOW|unix.AT_EACCESS))
		}
		for _, size := range []int64{3, 10, -1} {
			w.result(fmt.Sprintf("truncate %s %d", p, size), unix.Truncate(p, size))
		}
		for _, attr := range []string{"user.x", "user.", "trusted.x", "security.x", "nonsense", "system.posix_acl_access", ""} {
			w.result(fmt.Sprintf("setxattr %s %s", p, attr), kin(attr, unix.Setxattr(p, attr, []byte("v"), 0)))
			w.result(fmt.Sprintf("setxattr create %s %s", p, attr), kin(attr, unix.Setxattr(p, attr, []byte("w"), unix.XATTR_CREATE)))
			w.result(fmt.Sprintf("lsetxattr %s %s", p, attr), kin(attr, unix.Lsetxattr(p, attr, []byte("v"), 0)))
			w.result(fmt.Sprintf("removexattr %s %s", p, attr), kin(attr, unix.Removexattr(p, attr)))
			w.result(fmt.Sprintf("lremovexattr %s %s", p, attr), kin(attr, unix.Lremovexattr(p, attr)))
		}
	}
	w.result("setxattr large", unix.Setxattr("a", "user.large", make([]byte, 70000), 0))
	w.result("setxattr flags", unix.Setxattr("a", "user.y", []byte("v"), 77))
	_ = os.Chmod("a", 0o444)
	w.result("access shut", unix.Access("a", unix.W_OK))
	w.result("truncate shut", unix.Truncate("a", 1))
	_ = os.Chmod("a", 0o644)
	w.result("attributes", nil, "a", "ad")
}

// kin: of attributes that nobody inside may set each file system and each bridge says
// no in another way.
func kin(attr string, err error) error {
	switch attr {
	case "trusted.x", "security.x", "nonsense", "system.posix_acl_access", "user.":
		if err != nil {
			return syscall.EPERM
		}
	}
	return err
}

// notOurs: an owner whom the name space does not know is EINVAL natively.
func notOurs(err error) error {
	if err == syscall.EINVAL || err == syscall.EOVERFLOW {
		return syscall.EPERM
	}
	return err
}

// descriptors makes the calls that take a descriptor.
func (w *workload) descriptors() {
	put("df", "content")
	_ = os.Mkdir("dd", 0o755)
	for _, open := range []struct {
		path  string
		flags int
	}{{"df", unix.O_RDONLY}, {"df", unix.O_RDWR}, {"dd", unix.O_RDONLY}, {"df", unix.O_PATH}, {"dd", unix.O_PATH}} {
		fd, err := unix.Open(open.path, open.flags, 0)
		w.result(fmt.Sprintf("descriptor %s %#x", open.path, open.flags), err)
		w.result("fchmod", unix.Fchmod(fd, 0o750), open.path)
		w.result("fchmod sticky", unix.Fchmod(fd, 0o1750), open.path)
		w.result("fchown", unix.Fchown(fd, os.Geteuid(), -1), open.path)
		w.result("fchown other", notOurs(unix.Fchown(fd, 4242, -1)), open.path)
		_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, 0, 0, 0, 0)
		w.result("futimens", errno)
		times := [2]unix.Timespec{{Sec: 7}, {Sec: 8}}
		_, _, errno = unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0)
		var st unix.Stat_t
		_ = unix.Fstat(fd, &st)
		w.result(fmt.Sprintf("futimens %d", min(st.Mtim.Sec, 1e6)), errno)
		w.result("fsetxattr", unix.Fsetxattr(fd, "user.z", []byte("v"), 0))
		w.result("fremovexattr", unix.Fremovexattr(fd, "user.z"))
		w.result("ftruncate", unix.Ftruncate(fd, 3), open.path)
		w.result("utimensat empty", unix.UtimesNanoAt(fd, "", []unix.Timespec{{Sec: 1}, {Sec: 2}}, unix.AT_EMPTY_PATH))
		w.result("fchownat empty", unix.Fchownat(fd, "", os.Geteuid(), -1, unix.AT_EMPTY_PATH))
		w.result("chmod proc", unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700), open.path)
		w.opened(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDWR, 0)
		w.opened(fmt.Sprintf("/proc/thread-self/fd/%d", fd), unix.O_WRONLY|unix.O_TRUNC, 0)
		w.opened(fmt.Sprintf("/dev/fd/%d", fd), unix.O_WRONLY|unix.O_CREAT, 0o600)
		w.opened(fmt.Sprintf("/proc/self/fd/%d/below", fd), unix.O_WRONLY|unix.O_CREAT, 0o600)
		w.opened(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd), unix.O_WRONLY|unix.O_NOFOLLOW, 0)
		_ = unix.Close(fd)
	}
	w.result("fchmod closed", unix.Fchmod(77, 0o700))
	w.result("descriptors", nil, "df", "dd", "dd/below")
	for _, fd := range []int{0, 1} {
		w.result(fmt.Sprintf("fchmod std %d", fd), unix.Fchmod(fd, 0o600))
	}
}

// nameless makes calls on open files that have no name any more, or not yet.
func (w *workload) nameless() {
	put("plainer", "of before")
	for _, how := range []string{"made", "made and closed", "of before", "tmpfile", "tmpfile excl"} {
		var fd int
		var err error
		switch how {
		case "made":
			fd, err = unix.Open("unlinked", unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o640)
			_ = unix.Unlink("unlinked")
		case "made and closed":
			put("unlinked", "x")
			fd, err = unix.Open("unlinked", unix.O_RDWR, 0)
			_ = unix.Unlink("unlinked")
		case "of before":
			fd, err = unix.Open("plainer", unix.O_RDWR, 0)
			_ = unix.Unlink("plainer")
		case "tmpfile":
			fd, err = unix.Open("d", unix.O_RDWR|unix.O_TMPFILE, 0o640)
		case "tmpfile excl":
			fd, err = unix.Open("d", unix.O_RDWR|unix.O_TMPFILE|unix.O_EXCL, 0o640)
		}
		say := func(what string, err error) {
			var st unix.Stat_t
			_ = unix.Fstat(fd, &st)
			w.say("nameless %s, %s: %v, %o n%d size %d", how, what, err, st.Mode, st.Nlink, st.Size)
		}
		path := fmt.Sprintf("/proc/self/fd/%d", fd)
		say("open", err)
		_, err = unix.Write(fd, []byte("content"))
		say("write", err)
		say("fchmod", unix.Fchmod(fd, 0o600))
		say("chmod", unix.Chmod(path, 0o644))
		say("fchown", unix.Fchown(fd, os.Geteuid(), os.Getegid()))
		say("fchown other", notOurs(unix.Fchown(fd, 4242, -1)))
		say("utimes", unix.Utimes(path, []unix.Timeval{{Sec: 1}, {Sec: 2}}))
		say("futimes", unix.Futimes(fd, []unix.Timeval{{Sec: 3}, {Sec: 4}}))
		say("fsetxattr", unix.Fsetxattr(fd, "user.a", []byte("v"), 0))
		say("removexattr", unix.Removexattr(path, "user.a"))
		say("access", unix.Access(path, unix.W_OK))
		say("truncate", unix.Truncate(path, 3))
		for _, flags := range []int{unix.O_RDWR, unix.O_WRONLY | unix.O_APPEND, unix.O_RDONLY | unix.O_TRUNC, unix.O_WRONLY | unix.O_TRUNC, unix.O_RDWR | unix.O_CREAT} {
			again, err := unix.Open(path, flags, 0o600)
			if err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY {
				_, err = unix.Write(again, []byte("more"))
			}
			say(fmt.Sprintf("reopen %#x", flags), err)
			_ = unix.Close(again)
		}
		err = unix.Linkat(unix.AT_FDCWD, path, unix.AT_FDCWD, "relinked", unix.AT_SYMLINK_FOLLOW)
		say("linkat", err)
		if err == nil {
			w.opened("relinked", unix.O_RDWR, 0)
			w.result("relinked", unix.Unlink("relinked"))
		}
		_ = unix.Close(fd)
	}
}

// places reaches files by paths of all kinds.
func (w *workload) places() {
	folder := os.Getenv(envFolder)
	_ = os.MkdirAll("p/q/r", 0o755)
	_ = os.Symlink(folder+"/p", "abs")
	_ = os.Symlink("../p/q", "p/rel")
	_ = os.Symlink("/proc/self/cwd", "cwd")
	_ = os.Symlink(folder, "../out/into")
	_ = os.Symlink("into/p/q", "../out/deep")
	_ = os.Symlink("../out/o2", "outward")
	for i, p := range []string{folder + "/p/%d", "abs/%d", "p/rel/%d", "cwd/%d", "/proc/self/cwd/p/%d", "../out/into/%d", "../out/deep/%d", "p/../p/./q//r/%d",
		"../folder/p/%d", "/proc/self/root" + folder + "/%d", "/proc/thread-self/root" + folder + "/p/%d", "p/rel/../%d", "abs/q/../../%d", "cwd/cwd/cwd/%d"} {
		p = fmt.Sprintf(p, i)
		name := strings.ReplaceAll(p, folder, "FOLDER")
		fd, err := unix.Open(p, unix.O_WRONLY|unix.O_CREAT, 0o644)
		w.result("place "+name, err)
		_ = unix.Close(fd)
		w.result("place mkdir "+name, unix.Mkdir(p+"d", 0o755))
		w.result("place rename "+name, unix.Rename(p, p+"x"))
		w.result("place chmod "+name, unix.Chmod(p+"x", 0o600))
		w.result("place link "+name, unix.Link(p+"x", p+"y"))
		w.result("place unlink "+name, unix.Unlink(p+"x"))
		w.result("place rmdir "+name, unix.Rmdir(p+"d"))
	}
	var found []string
	_ = filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if strings.HasSuffix(path, "y") {
			found = append(found, path)
		}
		return nil
	})
	w.say("places: %v", found)
	w.opened("outward", unix.O_WRONLY|unix.O_CREAT, 0o600)
	w.result("outward", nil, "../out/o2")
	for _, p := range []string{folder, "../out/into", folder + "/"} {
		w.result("root chmod", unix.Chmod(p, 0o750))
		w.result("root utimes", unix.Utimes(p, []unix.Timeval{{Sec: 5}, {Sec: 6}}))
		w.result("root access", unix.Access(p, unix.W_OK))
	}
	w.result("root", nil, "../folder")
	_ = os.Mkdir("gone", 0o755)
	_ = os.Chdir("gone")
	w.result("rmdir cwd", unix.Rmdir("../gone"))
	w.opened("x", unix.O_WRONLY|unix.O_CREAT, 0o600)
	w.result("mkdir gone", unix.Mkdir("x", 0o700))
	_ = os.Chdir(folder)
}

// statfses asks for the file systems of paths and descriptors.
func (w *workload) statfses() {
	say := func(what string, st *unix.Statfs_t, err error) {
		w.say("statfs %s: %v, read-only %v, %d %d", what, err, st.Flags&unix.ST_RDONLY != 0, st.Namelen, st.Bsize)
	}
	_ = os.Symlink("nowhere", "sdangling")
	put("sf", "")
	for _, p := range []string{".", "sf", "sf/", "d", "sdangling", "none", "..", "../out", "/proc/self/cwd/sf"} {
		var st unix.Statfs_t
		say(p, &st, unix.Statfs(p, &st))
		for _, flags := range []int{unix.O_RDONLY, unix.O_PATH, unix.O_WRONLY} {
			fd, err := unix.Open(p, flags, 0)
			if err == nil {
				var st unix.Statfs_t
				say(fmt.Sprintf("%s %#x", p, flags), &st, unix.Fstatfs(fd, &st))
				_ = unix.Close(fd)
			}
		}
	}
	name, _ := unix.BytePtrFromString("sf")
	_, _, errno := unix.Syscall(unix.SYS_STATFS, uintptr(unsafe.Pointer(name)), 8, 0)
	say("bad address", &unix.Statfs_t{}, errno)
}

func (w *workload) sockets() {
	for _, p := range []string{"sock", "sock", "p/sock", "none/sock", "f", "\x00abstract-mediate", "../out/sock", strings.Repeat("s", 107), "."} {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			w.say("socket %v", err)
			return
		}
		name := strings.ReplaceAll(p, "\x00", "@")
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: strings.ReplaceAll(p, "\x00", "@")})
		w.result("bind "+name, err, name)
		if err == nil {
			w.result("bind again", unix.Bind(fd, &unix.SockaddrUnix{Name: "again"}))
			w.result("listen", unix.Listen(fd, 1))
			c, _ := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			w.result("connect", unix.Connect(c, &unix.SockaddrUnix{Name: strings.ReplaceAll(p, "\x00", "@")}))
			_ = unix.Close(c)
		}
		_ = unix.Close(fd)
	}
}
