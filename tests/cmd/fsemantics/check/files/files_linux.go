package files

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/record"
)

func fileChecks() []record.Named {
	return []record.Named{
		{Name: "flock", Do: flock}, {Name: "flock-processes", Do: flockProcesses}, {Name: "fcntl-locks", Do: fcntlLocks}, {Name: "fcntl-lock-rights", Do: fcntlRights},
		{Name: "ofd-locks", Do: ofdLocks}, {Name: "lock-lost-at-close", Do: lockLost}, {Name: "lease", Do: lease}, {Name: "inotify", Do: inotify}, {Name: "exec-written", Do: execWritten},
		{Name: "exec-script", Do: execScript}, {Name: "exec-text-busy", Do: execBusy}, {Name: "exec-text-busy-trunc", Do: execBusyTrunc}, {Name: "exec-mode", Do: execMode}, {Name: "exec-replaced", Do: execReplaced},
		{Name: "reopen", Do: reopen}, {Name: "reopen-renamed", Do: reopenRenamed}, {Name: "limit-file-size", Do: limitFileSize}, {Name: "limit-file-size-truncate", Do: limitTruncate},
		{Name: "limit-descriptors", Do: limitDescriptors}, {Name: "append-processes", Do: appendProcesses}, {Name: "shell", Do: shell}, {Name: "lock-file", Do: lockFile},
	}
}

func flock(c *record.Seen) {
	c.Put("f", "x")
	a, b, r := c.Get("f", unix.O_WRONLY), c.Get("f", unix.O_RDWR), c.Get("f", unix.O_RDONLY)
	c.Err("exclusive", unix.Flock(a, unix.LOCK_EX|unix.LOCK_NB))
	c.Err("second", unix.Flock(b, unix.LOCK_EX|unix.LOCK_NB))
	c.Err("reader", unix.Flock(r, unix.LOCK_SH|unix.LOCK_NB))
	d, err := unix.Dup(a)
	c.Must(err)
	c.Err("duplicate", unix.Flock(d, unix.LOCK_EX|unix.LOCK_NB))
	record.CloseAll(a)
	c.Err("still", unix.Flock(r, unix.LOCK_SH|unix.LOCK_NB))
	record.CloseAll(d)
	c.Err("released", unix.Flock(r, unix.LOCK_SH|unix.LOCK_NB))
	c.Err("shared", unix.Flock(b, unix.LOCK_SH|unix.LOCK_NB))
	c.Err("upgrade", unix.Flock(b, unix.LOCK_EX|unix.LOCK_NB))
	c.Err("unlock", unix.Flock(r, unix.LOCK_UN))
	c.Err("upgrade2", unix.Flock(b, unix.LOCK_EX|unix.LOCK_NB))
	c.Err("path", unix.Flock(c.Get("f", unix.O_PATH), unix.LOCK_SH))
}

func flockProcesses(c *record.Seen) {
	c.Put("f", "x")
	for i := range 50 { // a lock is free at once when its last descriptor is closed
		fd := c.Get("f", unix.O_WRONLY)
		if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
			c.Err(fmt.Sprint("late", i), err)
		}
		record.CloseAll(fd)
	}
	fd := c.Get("f", unix.O_RDWR)
	c.Err("lock", unix.Flock(fd, unix.LOCK_EX))
	c.Child("other", "flock", "f")
	c.Err("unlock", unix.Flock(fd, unix.LOCK_UN))
	c.Child("other2", "flock", "f")
}

func setlk(fd, cmd int, typ int16, start, length int64) error {
	return unix.FcntlFlock(uintptr(fd), cmd, &unix.Flock_t{Type: typ, Start: start, Len: length})
}

func fcntlLocks(c *record.Seen) {
	c.Put("f", "0123456789")
	fd := c.Get("f", unix.O_RDWR)
	c.Err("write", setlk(fd, unix.F_SETLK, unix.F_WRLCK, 0, 5))
	c.Child("other", "fcntl", "f", "0", "5")
	c.Child("other-range", "fcntl", "f", "5", "5")
	c.Child("who", "holder", "f", fmt.Sprint(os.Getpid()))
	c.Err("downgrade", setlk(fd, unix.F_SETLK, unix.F_RDLCK, 0, 5))
	c.Child("other-write", "fcntl", "f", "0", "1")
	c.Err("unlock", setlk(fd, unix.F_SETLK, unix.F_UNLCK, 0, 0))
	c.Child("other-free", "fcntl", "f", "0", "5")
}

func fcntlRights(c *record.Seen) {
	c.Put("f", "x")
	r, w := c.Get("f", unix.O_RDONLY), c.Get("f", unix.O_WRONLY)
	c.Err("reader-write", setlk(r, unix.F_SETLK, unix.F_WRLCK, 0, 1))
	c.Err("reader-read", setlk(r, unix.F_SETLK, unix.F_RDLCK, 0, 1))
	c.Err("writer-read", setlk(w, unix.F_SETLK, unix.F_RDLCK, 0, 1))
	c.Err("writer-write", setlk(w, unix.F_SETLK, unix.F_WRLCK, 0, 1))
	c.Err("path", setlk(c.Get("f", unix.O_PATH), unix.F_SETLK, unix.F_RDLCK, 0, 1))
	c.Err("bad-type", setlk(w, unix.F_SETLK, 9, 0, 1))
}

func ofdLocks(c *record.Seen) {
	c.Put("f", "0123456789")
	a, b, r := c.Get("f", unix.O_RDWR), c.Get("f", unix.O_RDWR), c.Get("f", unix.O_RDONLY)
	c.Err("a", setlk(a, unix.F_OFD_SETLK, unix.F_WRLCK, 0, 5))
	c.Err("b", setlk(b, unix.F_OFD_SETLK, unix.F_WRLCK, 0, 5))
	c.Err("b-range", setlk(b, unix.F_OFD_SETLK, unix.F_WRLCK, 5, 5))
	c.Err("reader", setlk(r, unix.F_OFD_SETLK, unix.F_RDLCK, 0, 5))
	record.CloseAll(a)
	c.Err("reader2", setlk(r, unix.F_OFD_SETLK, unix.F_RDLCK, 0, 5))
	c.Child("other", "fcntl", "f", "5", "5")
}

// lockLost: a process' record locks go when it closes any descriptor of the file.
func lockLost(c *record.Seen) {
	c.Put("f", "0123456789")
	a, b := c.Get("f", unix.O_RDWR), c.Get("f", unix.O_RDWR)
	c.Err("lock", setlk(a, unix.F_SETLK, unix.F_WRLCK, 0, 5))
	c.Child("other", "fcntl", "f", "0", "5")
	record.CloseAll(b)
	c.Child("lost", "fcntl", "f", "0", "5")
	record.CloseAll(a)
}

func lease(c *record.Seen) {
	c.Put("f", "x")
	take := func(label string, fd, typ int) {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, typ)
		c.Err(label, err)
	}
	r := c.Get("f", unix.O_RDONLY)
	take("reader", r, unix.F_RDLCK)
	take("unlock", r, unix.F_UNLCK)
	w := c.Get("f", unix.O_WRONLY)
	take("with-writer", r, unix.F_RDLCK)
	record.CloseAll(w)
	take("without", r, unix.F_RDLCK)
	take("unlock2", r, unix.F_UNLCK)
	w = c.Get("f", unix.O_RDWR)
	take("exclusive-shared", w, unix.F_WRLCK)
	record.CloseAll(r)
	take("exclusive", w, unix.F_WRLCK)
	take("unlock3", w, unix.F_UNLCK)
}

// inotify sees what a program hears of its own changes.
func inotify(c *record.Seen) {
	c.Mkdir("d")
	c.Put("d/old", "x")
	in, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	c.Must(err)
	_, err = unix.InotifyAddWatch(in, "d", unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVE|unix.IN_MODIFY|unix.IN_CLOSE_WRITE|unix.IN_ATTRIB)
	c.Must(err)
	hear := func(label string) {
		b := make([]byte, 4096)
		var events []string
		n, err := unix.Read(in, b)
		for at := 0; err == nil && at < n; {
			mask, length := binary.NativeEndian.Uint32(b[at+4:]), int(binary.NativeEndian.Uint32(b[at+12:]))
			if mask != unix.IN_MODIFY|unix.IN_ISDIR { // natively there is none; over FUSE there may be one, of a directory that was just made
				events = append(events, fmt.Sprintf("%#x:%s", mask, strings.TrimRight(string(b[at+16:at+16+length]), "\x00")))
			}
			at += 16 + length
		}
		c.See(label, events)
	}
	fd := c.Open("create", "d/f", unix.O_WRONLY|unix.O_CREAT, 0o644)
	hear("created")
	c.Write("write", fd, "x")
	hear("written")
	record.CloseAll(fd)
	hear("closed")
	c.Must(unix.Mkdir("d/sub", 0o755))
	hear("mkdir")
	c.Must(unix.Rename("d/f", "d/g"))
	hear("renamed")
	c.Must(unix.Chmod("d/g", 0o600))
	hear("chmod")
	c.Must(unix.Truncate("d/g", 0))
	hear("truncated")
	c.Must(unix.Unlink("d/g"))
	hear("unlinked")
	c.Must(unix.Rmdir("d/sub"))
	hear("rmdir")
}

// copySelf makes an executable file of this program.
func copySelf(c *record.Seen, path string) {
	b, err := os.ReadFile("/proc/self/exe")
	c.Must(err)
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o755)
	c.Must(err)
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		c.Must(err)
		b = b[n:]
	}
	c.Must(unix.Close(fd))
}

func start(path string, args ...string) error {
	p, err := os.StartProcess(path, append([]string{path}, args...), &os.ProcAttr{Files: []*os.File{os.Stdin, nil, nil}})
	if err != nil {
		return err
	}
	st, err := p.Wait()
	if err == nil && !st.Success() {
		err = fmt.Errorf("%v", st)
	}
	return err
}

// execWritten: a file can be executed as soon as its writer has closed it.
func execWritten(c *record.Seen) {
	bad := 0
	for i := range 50 {
		n := fmt.Sprintf("./run%d", i)
		c.Put(n, "#!/bin/true\n")
		c.Must(unix.Chmod(n, 0o755))
		if err := start(n); err != nil {
			bad++
			c.Err(n, err)
		}
	}
	c.See("failed", bad)
	for i := range 3 {
		copySelf(c, "program")
		c.Err(fmt.Sprint("program", i), start("./program", record.Word, "child", "nothing"))
	}
}

func execScript(c *record.Seen) {
	c.Put("s", "#!/bin/sh\necho changed >out\necho more >>out\n(cd sub && echo x >y)\ntest -w out\n")
	c.Mkdir("sub")
	c.Must(unix.Chmod("s", 0o755))
	c.Err("run", start("./s"))
	c.Content("out", "out")
	c.Content("y", "sub/y")
}

// running starts a copy of this program, which waits for the end of its input.
func running(c *record.Seen) (*os.Process, *os.File) {
	copySelf(c, "program")
	r, w, err := os.Pipe()
	c.Must(err)
	p, err := os.StartProcess("./program", []string{"./program", record.Word, "child", "wait"}, &os.ProcAttr{Files: []*os.File{r, nil, nil}})
	c.Must(err)
	return p, w
}

func execBusy(c *record.Seen) {
	copySelf(c, "program")
	w := c.Get("program", unix.O_RDWR)
	c.Err("open-for-writing", start("./program", record.Word, "child", "nothing"))
	record.CloseAll(w)
	c.Must(unix.Unlink("program"))
	p, in := running(c)
	c.Open("running", "program", unix.O_WRONLY, 0)
	c.Open("running-trunc", "program", unix.O_RDWR|unix.O_TRUNC, 0)
	c.Err("running-truncate", unix.Truncate("program", 0))
	c.Err("running-chmod", unix.Chmod("program", 0o700))
	c.Open("running-proc", fmt.Sprintf("/proc/%d/exe", p.Pid), unix.O_WRONLY, 0)
	c.Err("running-unlink", unix.Unlink("program"))
	c.Must(in.Close())
	st, err := p.Wait()
	c.Err("wait", err)
	c.See("status", st)
}

// execBusyTrunc cuts a running program off without opening it for writing. The program is
// stopped meanwhile: where it loses its text it would die, and then it does not run any more.
func execBusyTrunc(c *record.Seen) {
	p, in := running(c)
	c.Must(unix.Kill(p.Pid, unix.SIGSTOP))
	_, err := unix.Wait4(p.Pid, nil, unix.WUNTRACED, nil)
	c.Must(err)
	c.Open("trunc", "program", unix.O_RDONLY|unix.O_TRUNC, 0)
	var st unix.Stat_t
	c.Must(unix.Stat("program", &st))
	c.See("kept", st.Size > 0)
	c.Must(unix.Kill(p.Pid, unix.SIGCONT))
	c.Must(in.Close())
	_, err = p.Wait()
	c.Err("wait", err)
}

func execMode(c *record.Seen) {
	c.Put("s", "#!/bin/true\n")
	c.Err("not-executable", start("./s"))
	c.Must(unix.Chmod("s", 0o100))
	c.Err("unreadable", start("./s"))
	c.Must(unix.Chmod("s", 0o700))
	c.Err("executable", start("./s"))
	c.Err("slash", start("./s/"))
	c.Must(unix.Unlink("s"))
	c.Err("unlinked", start("./s"))
}

func execReplaced(c *record.Seen) {
	bad := 0
	for i := range 30 {
		c.Put("new", fmt.Sprintf("#!/bin/sh\nexit %d\n", i%2))
		c.Must(unix.Chmod("new", 0o755))
		c.Must(unix.Rename("new", "run"))
		if (start("./run") == nil) != (i%2 == 0) {
			bad++
		}
	}
	c.See("wrong", bad)
}

func reopen(c *record.Seen) {
	c.Put("f", "12345")
	r, w := c.Get("f", unix.O_RDONLY), c.Get("f", unix.O_WRONLY)
	rw := c.Open("reader-rdwr", record.ProcFD(r), unix.O_RDWR, 0)
	c.Write("write", rw, "a")
	c.Read("read", rw)
	wr := c.Open("writer-read", record.ProcFD(w), unix.O_RDONLY, 0)
	c.Read("read2", wr)
	ap := c.Open("append", record.ProcFD(w), unix.O_WRONLY|unix.O_APPEND, 0)
	c.Write("append-write", ap, "6")
	c.Content("content", "f")
	c.Open("create", record.ProcFD(w), unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Open("excl", record.ProcFD(w), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
	c.Open("directory", record.ProcFD(w), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	c.Open("nofollow", record.ProcFD(w), unix.O_WRONLY|unix.O_NOFOLLOW, 0)
	c.Open("thread-self", fmt.Sprintf("/proc/thread-self/fd/%d", w), unix.O_WRONLY, 0)
	c.Open("pid", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), w), unix.O_WRONLY, 0)
	c.Open("dev", fmt.Sprintf("/dev/fd/%d", w), unix.O_WRONLY, 0)
	c.Open("missing", "/proc/self/fd/999", unix.O_WRONLY, 0)
	t := c.Open("trunc", record.ProcFD(r), unix.O_WRONLY|unix.O_TRUNC, 0)
	c.Fstat("fstat", t)
	c.Child("stdout", "reopen-stdout")
}

func reopenRenamed(c *record.Seen) {
	c.Put("f", "12345")
	r := c.Get("f", unix.O_RDONLY)
	c.Must(unix.Rename("f", "g"))
	c.Put("f", "another")
	w := c.Open("open", record.ProcFD(r), unix.O_WRONLY|unix.O_TRUNC, 0)
	c.Write("write", w, "new")
	c.Content("g", "g")
	c.Content("f", "f")
	c.Err("chmod", unix.Chmod(record.ProcFD(r), 0o600))
	c.Stat("stat", "g")
	c.Err("truncate", unix.Truncate(record.ProcFD(r), 1))
	c.Content("g2", "g")
	c.Err("unlink", unix.Unlink(record.ProcFD(r)))
	c.Err("rename", unix.Rename(record.ProcFD(r), "h"))
}

func limitFileSize(c *record.Seen) {
	c.Child("ignored", "limit", "write", "f")
	c.Stat("stat", "f")
	c.Child("pwrite", "limit", "pwrite", "g")
	c.Child("fallocate", "limit", "fallocate", "h")
	c.Child("mmap", "limit", "copy", "i")
}

func limitTruncate(c *record.Seen) {
	c.Put("f", "12345")
	c.Child("truncate", "limit", "truncate", "f")
	c.Child("ftruncate", "limit", "ftruncate", "f")
	c.Child("shrink", "limit", "shrink", "f")
	c.Stat("stat", "f")
}

// limitDescriptors: what fails for want of a descriptor has done nothing.
func limitDescriptors(c *record.Seen) {
	c.Put("f", "12345")
	c.Child("full", "full", "f")
	c.List("list", ".")
	c.Content("content", "f")
}

func appendProcesses(c *record.Seen) {
	c.Put("f", "")
	done := make(chan string, 4)
	for i := range 4 {
		go func() {
			own := &record.Seen{}
			own.Child("n", "append", "f", strings.Repeat(fmt.Sprint(i), 9), "200")
			done <- own.Parts[0]
		}()
	}
	for range 4 {
		if said := <-done; said != "n=200" {
			c.See("child", said)
		}
	}
	b, err := os.ReadFile("f")
	c.Must(err)
	torn := 0
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	for _, l := range lines {
		if len(l) != 9 || strings.Count(l, l[:1]) != 9 {
			torn++
		}
	}
	c.See("lines", len(lines))
	c.See("torn", torn)
}

func shell(c *record.Seen) {
	c.Put("s", `set -e
mkdir -p a/b/c; echo one >a/b/c/f; echo two >>a/b/c/f
cp -r a x; mv x/b/c/f x/g; ln -s g x/l; ln x/g x/h
(cd x && echo three >>l && rm -r b)
for i in 1 2 3 4 5 6 7 8 9; do echo $i >n$i & done; wait
find . -type f ! -name out | sort | xargs cat | cksum
chmod 600 x/g; test ! -x x/g; touch -d 2001-02-03 x/g; stat -c '%a %Y %h %s' x/g
rm -rf a n?; ls | tr '\n' ' '
`)
	out, err := os.Create("out")
	c.Must(err)
	p, err := os.StartProcess("/bin/sh", []string{"sh", "s"}, &os.ProcAttr{Files: []*os.File{nil, out, out}, Env: []string{"TZ=UTC", "PATH=/usr/bin:/bin"}})
	c.Must(err)
	_, err = p.Wait()
	c.Err("sh", err)
	b, err := os.ReadFile("out")
	c.Must(err)
	c.See("out", strings.TrimSpace(string(b)))
}

// lockFile is how programs exclude each other: O_EXCL, and a link that is counted.
func lockFile(c *record.Seen) {
	winners := make(chan int, 16)
	for range 16 {
		go func() {
			n := 0
			for i := range 40 {
				fd, err := unix.Open(fmt.Sprint("lock", i), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
				if err == nil {
					n++
					record.CloseAll(fd)
				}
			}
			winners <- n
		}()
	}
	won := 0
	for range 16 {
		select {
		case n := <-winners:
			won += n
		case <-time.After(record.Patience):
			c.See("hangs", true)
		}
	}
	c.See("won", won)
}
