package posix

import (
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// metaCases change attributes, or look at permissions and locks.
var metaCases = []testCase{
	{"chmod", func(r *recorder) {
		for path, mode := range map[string]uint32{"small.txt": 0, "run.sh": 0o644, "src": 0o700, "emptydir": 0o1777} {
			r.err("chmod", unix.Chmod(path, mode))
		}
		for _, p := range []string{"small.txt", "run.sh", "src", "emptydir"} {
			r.stat(p)
		}
		r.err("of nothing", unix.Chmod("nothing", 0o644))
		r.with("small.txt", unix.O_RDONLY, func(int) {}) // mode 0: EACCES
		r.with("readonly", unix.O_WRONLY, func(int) {})
		r.with("readonly", unix.O_RDONLY, func(fd int) { r.err("fchmod", unix.Fchmod(fd, 0o600)) })
		r.with("readonly", unix.O_WRONLY|unix.O_APPEND, func(fd int) {
			_, err := unix.Write(fd, []byte("now it may"))
			r.err("write", err)
		})
	}},
	{"setgid on directories", func(r *recorder) {
		r.err("chmod", unix.Chmod("src", 0o2755))
		r.err("mkdir below", unix.Mkdir("src/below", 0o755))
		r.stat("src")
		r.stat("src/below")
	}},
	{"a write clears setuid", func(r *recorder) {
		r.with("special/suid", unix.O_WRONLY|unix.O_APPEND, func(fd int) {
			_, err := unix.Write(fd, []byte("x"))
			r.err("write", err)
		})
		r.stat("special/suid")
		r.err("truncate", unix.Truncate("special/sgid", 0))
		r.stat("special/sgid")
	}},
	{"a locked directory", func(r *recorder) {
		r.err("chmod", unix.Chmod("src", 0o555))
		r.with("src/new", unix.O_CREAT|unix.O_WRONLY, func(int) {})
		r.err("unlink", unix.Unlink("src/main.rs"))
		r.err("rename out", unix.Rename("src/main.rs", "main.rs"))
		r.err("chmod", unix.Chmod("src", 0))
		r.list("src")
		r.stat("src/main.rs")
		r.with("src/main.rs", unix.O_RDONLY, func(int) {})
	}},
	{"times", func(r *recorder) {
		at := time.Date(1999, 12, 31, 23, 59, 59, 987654321, time.UTC)
		ts := []unix.Timespec{unix.NsecToTimespec(at.UnixNano()), unix.NsecToTimespec(at.UnixNano())}
		for _, p := range []string{"small.txt", "src", "link", "fifo"} {
			r.err("utimensat", unix.UtimesNanoAt(unix.AT_FDCWD, p, ts, unix.AT_SYMLINK_NOFOLLOW))
			var st unix.Stat_t
			r.err("stat", unix.Lstat(p, &st))
			r.see("mtime", st.Mtim.Nano())
		}
		omit := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_OMIT}}
		r.err("atime only", unix.UtimesNanoAt(unix.AT_FDCWD, "small.txt", omit, 0))
		var st unix.Stat_t
		r.err("stat", unix.Lstat("small.txt", &st))
		r.see("mtime", st.Mtim.Nano())
		r.err("before 1970", os.Chtimes("run.sh", time.Unix(-1000, 5), time.Unix(-1000, 5)))
	}},
	{"directory times", func(r *recorder) {
		moved := func(dir string, f func()) {
			var a, b unix.Stat_t
			r.err("stat", unix.Lstat(dir, &a))
			f()
			r.err("stat", unix.Lstat(dir, &b))
			r.see("mtime of "+dir+" moved", b.Mtim.Nano() > a.Mtim.Nano())
			r.see("ctime of "+dir+" moved", b.Ctim.Nano() > a.Ctim.Nano())
		}
		moved("src", func() { r.with("src/new", unix.O_CREAT|unix.O_WRONLY, func(int) {}) })
		moved("hard", func() { r.err("unlink", unix.Unlink("hard/two")) })
		moved("special", func() { r.err("rename", unix.Rename("special/suid", "special/renamed")) })
		moved("small.txt", func() { r.err("write", os.WriteFile("small.txt", []byte("x"), 0o644)) })
	}},
	{"ownership", func(r *recorder) {
		r.err("to myself", unix.Lchown("small.txt", os.Getuid(), os.Getgid()))
		r.err("of nothing changed", unix.Lchown("small.txt", -1, -1))
		r.err("to root", unix.Lchown("small.txt", 0, 0))
		var st unix.Stat_t
		r.err("stat", unix.Lstat("small.txt", &st))
		r.see("mine", int(st.Uid) == os.Getuid())
		r.err("create", os.WriteFile("mine", nil, 0o644))
		r.err("stat", unix.Lstat("mine", &st))
		r.see("mine", int(st.Uid) == os.Getuid() && int(st.Gid) == os.Getgid())
	}},
	{"xattrs", func(r *recorder) {
		get := func(path, name string) {
			b := make([]byte, 100)
			n, err := unix.Lgetxattr(path, name, b)
			if r.err("get "+name, err) {
				r.see(name, string(b[:n]))
			}
		}
		r.err("set", unix.Lsetxattr("small.txt", "user.new", []byte("1"), 0))
		r.err("replace", unix.Lsetxattr("attributed", "user.test", []byte("other"), unix.XATTR_REPLACE))
		r.err("create what is there", unix.Lsetxattr("attributed", "user.test", []byte("x"), unix.XATTR_CREATE))
		r.err("replace what is not", unix.Lsetxattr("small.txt", "user.none", []byte("x"), unix.XATTR_REPLACE))
		r.err("remove", unix.Lremovexattr("attributed", "user.empty"))
		r.err("remove what is not", unix.Lremovexattr("attributed", "user.empty"))
		r.err("on a directory", unix.Lsetxattr("src", "user.dir", []byte(strings.Repeat("v", 2000)), 0))
		r.err("on a fifo", unix.Lsetxattr("fifo", "user.x", []byte("x"), 0))
		r.err("too long a name", unix.Lsetxattr("small.txt", "user."+strings.Repeat("n", 255), []byte("x"), 0))
		get("attributed", "user.test")
		get("small.txt", "user.new")
		get("hard", "user.dir")
		b := make([]byte, 1000)
		n, err := unix.Llistxattr("attributed", b)
		r.err("list", err)
		r.see("has it", strings.Contains(string(b[:max(n, 0)]), "user.test\x00"))
		_, err = unix.Lgetxattr("src", "user.dir", b)
		r.err("too small a buffer", err)
	}},
	{"locks", func(r *recorder) {
		a, err := os.OpenFile("small.txt", os.O_RDWR, 0)
		r.err("open", err)
		b, err := os.OpenFile("small.txt", os.O_RDWR, 0)
		r.err("open", err)
		defer a.Close()
		defer b.Close()
		r.err("flock", unix.Flock(int(a.Fd()), unix.LOCK_EX|unix.LOCK_NB))
		r.err("flock again", unix.Flock(int(b.Fd()), unix.LOCK_EX|unix.LOCK_NB))
		r.err("unlock", unix.Flock(int(a.Fd()), unix.LOCK_UN))
		r.err("flock", unix.Flock(int(b.Fd()), unix.LOCK_EX|unix.LOCK_NB))
		lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: 0, Start: 0, Len: 10}
		r.err("OFD lock", unix.FcntlFlock(a.Fd(), unix.F_OFD_SETLK, &lock))
		r.err("OFD lock again", unix.FcntlFlock(b.Fd(), unix.F_OFD_SETLK, &lock))
	}},
	{"programs in the folder", func(r *recorder) {
		out, err := exec.Command("./run.sh").CombinedOutput()
		r.err("run", err)
		r.see("output", string(out))
		err = exec.Command("cp", "/bin/echo", "./tool").Run()
		r.err("cp", err)
		out, err = exec.Command("./tool", "from", "the", "folder").CombinedOutput()
		r.err("run", err)
		r.see("output", string(out))
		r.err("busy", busy())
		r.see("not executable", exec.Command("./small.txt").Run() != nil)
		out, err = exec.Command("sh", "-c", "tar cf - src hard | tar xf - -C emptydir && find emptydir | sort").CombinedOutput()
		r.err("tar", err)
		r.see("output", string(out))
	}},
	{"git", func(r *recorder) {
		out, err := exec.Command("sh", "-ec", `
			export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1
			export GIT_AUTHOR_DATE="1000000000 +0000" GIT_COMMITTER_DATE="1000000000 +0000"
			git init -q -b main .; git config user.email a@b; git config user.name n
			git add -A src small.txt run.sh; git commit -q -m one; git mv small.txt moved.txt
			echo more >> src/main.rs; git commit -q -a -m two; git gc -q; git checkout -q HEAD~1
			git status --porcelain --untracked-files=no; git log --format=%s; git fsck --strict`).CombinedOutput()
		r.err("git", err)
		r.see("output", string(out))
	}},
	{"statfs and access", func(r *recorder) {
		var st unix.Statfs_t
		r.err("statfs", unix.Statfs(".", &st))
		r.see("name length", st.Namelen)
		r.see("has space", st.Bavail > 0 && st.Bsize > 0)
		r.err("access r", unix.Access("readonly", unix.R_OK))
		r.err("access w", unix.Access("readonly", unix.W_OK))
		r.err("access x", unix.Access("small.txt", unix.X_OK))
		r.err("access x", unix.Access("run.sh", unix.X_OK))
		r.err("access of nothing", unix.Access("nothing", unix.F_OK))
	}},
}

// busy tries to write to a program that runs.
func busy() error {
	cmd := exec.Command("./tool2")
	if err := exec.Command("cp", "/bin/cat", "./tool2").Run(); err != nil {
		return err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, _ = in.Write([]byte("x"))
	_, _ = out.Read(make([]byte, 1)) // it runs
	f, err := os.OpenFile("tool2", os.O_WRONLY, 0)
	if err == nil {
		f.Close()
	}
	in.Close()
	_ = cmd.Wait()
	return err
}
