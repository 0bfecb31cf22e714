package files

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/record"
)

func processChecks() []record.Named {
	return []record.Named{
		{Name: "threads-create", Do: threadsCreate}, {Name: "threads-same-file", Do: threadsSame}, {Name: "threads-descriptors", Do: threadsDescriptors},
		{Name: "threads-directories", Do: threadsDirectories}, {Name: "signals-restart", Do: signalsRestart}, {Name: "signals-child", Do: signalsChild}, {Name: "signals-no-restart", Do: signalsNoRestart},
		{Name: "child-inherits", Do: childInherits}, {Name: "child-directory", Do: childDirectory}, {Name: "killed-writer", Do: killedWriter},
	}
}

// parallel runs f in n threads and sums up what they return.
func parallel(n int, f func(i int) int) int {
	var wg sync.WaitGroup
	results := make([]int, n)
	for i := range n {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			results[i] = f(i)
		})
	}
	wg.Wait()
	sum := 0
	for _, r := range results {
		sum += r
	}
	return sum
}

func threadsCreate(c *record.Seen) {
	c.See("bad", parallel(16, func(i int) (bad int) {
		for j := range 50 {
			n := fmt.Sprintf("t%d-%d", i, j)
			fd, err := unix.Open(n, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
			if err != nil {
				bad++
				continue
			}
			_, err = unix.Write(fd, []byte(n))
			b := make([]byte, 50)
			got, readErr := unix.Pread(fd, b, 0)
			if err != nil || readErr != nil || string(b[:got]) != n || unix.Close(fd) != nil {
				bad++
			}
			if j%2 == 0 && unix.Unlink(n) != nil {
				bad++
			}
		}
		return bad
	}))
	entries, err := os.ReadDir(".")
	c.Err("list", err)
	c.See("left", len(entries))
}

func threadsSame(c *record.Seen) {
	c.Put("f", "")
	c.See("bad", parallel(8, func(int) (bad int) {
		for range 100 {
			fd, err := unix.Open("f", unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
			if err != nil {
				bad++
				continue
			}
			if n, err := unix.Write(fd, []byte("x")); n != 1 || err != nil || unix.Close(fd) != nil {
				bad++
			}
		}
		return bad
	}))
	c.Stat("stat", "f")
}

// threadsDescriptors: threads that share descriptors get the right ones.
func threadsDescriptors(c *record.Seen) {
	var dirs []int
	for i := range 8 {
		c.Mkdir(fmt.Sprint("d", i))
		dirs = append(dirs, c.Get(fmt.Sprint("d", i), unix.O_RDONLY))
	}
	c.See("bad", parallel(8, func(i int) (bad int) {
		for j := range 60 {
			n := fmt.Sprint("f", j)
			fd, err := unix.Openat(dirs[i], n, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
			if err != nil {
				bad++
				continue
			}
			var byFD, byPath unix.Stat_t
			if unix.Fstat(fd, &byFD) != nil || unix.Stat(fmt.Sprintf("d%d/%s", i, n), &byPath) != nil || byFD.Ino != byPath.Ino {
				bad++
			}
			record.CloseAll(fd)
		}
		return bad
	}))
}

func threadsDirectories(c *record.Seen) {
	c.See("bad", parallel(8, func(i int) (bad int) {
		n := fmt.Sprint("d", i)
		for range 60 {
			if unix.Mkdir(n, 0o755) != nil || unix.Symlink("x", n+"/l") != nil || unix.Rename(n, n+"x") != nil ||
				unix.Unlink(n+"x/l") != nil || unix.Rmdir(n+"x") != nil {
				bad++
			}
		}
		return bad
	}))
	c.List("list", ".")
}

// interrupted makes changes while signals arrive, and counts those that failed.
func interrupted(c *record.Seen, rounds int) (bad map[string]int) {
	bad = map[string]int{}
	count := func(what string, err error) {
		if err != nil {
			bad[what+":"+record.Name(err)]++
		}
	}
	for range rounds {
		count("mkdir", unix.Mkdir("d", 0o755))
		fd, err := unix.Open("d/f", unix.O_WRONLY|unix.O_CREAT, 0o644)
		count("open", err)
		record.CloseAll(fd)
		count("rename", unix.Rename("d/f", "d/g"))
		count("chmod", unix.Chmod("d/g", 0o600))
		count("unlink", unix.Unlink("d/g"))
		count("rmdir", unix.Rmdir("d"))
	}
	return bad
}

// signalsRestart: handlers with SA_RESTART, as Go's are, are not noticed.
func signalsRestart(c *record.Seen) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGUSR1)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := unix.Gettid()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Tgkill(os.Getpid(), tid, unix.SIGUSR1)
			}
		}
	})
	c.See("failed", interrupted(c, 300))
	close(stop)
	wg.Wait()
}

// signalsChild has children end while it makes changes, with a handler for that.
func signalsChild(c *record.Seen) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGCHLD)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 40 {
			_ = start("/bin/true")
		}
	})
	c.See("failed", interrupted(c, 200))
	wg.Wait()
}

// signalsNoRestart has handlers without SA_RESTART. The kernel interrupts a call that waits for
// its answer only until somebody has taken it up, so few calls see it.
func signalsNoRestart(c *record.Seen) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGCHLD)
	c.Must(unrestarted(syscall.SIGCHLD))
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 40 {
			_ = start("/bin/true")
		}
	})
	failed := 0
	for _, n := range interrupted(c, 200) {
		failed += n
	}
	c.See("few", failed < 20)
	wg.Wait()
}

func childInherits(c *record.Seen) {
	f, err := os.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o644)
	c.Must(err)
	_, err = f.WriteString("parent ")
	c.Must(err)
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "echo child; exec >>g; echo end"}, &os.ProcAttr{Files: []*os.File{nil, f, f}})
	c.Must(err)
	_, err = p.Wait()
	c.Must(err)
	_, err = f.WriteString("again")
	c.Err("write", err)
	c.Content("f", "f")
	c.Content("g", "g")
}

// childDirectory: a child in another directory is not confused with its parent.
func childDirectory(c *record.Seen) {
	c.Mkdir("d")
	for i := range 10 {
		p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "cd d && echo x >c" + strconv.Itoa(i) + " && cd .. && echo x >p" + strconv.Itoa(i)}, &os.ProcAttr{})
		c.Must(err)
		c.Must(unix.Mkdir(fmt.Sprint("m", i), 0o755))
		_, err = p.Wait()
		c.Must(err)
	}
	c.List("list", ".")
	c.List("list-d", "d")
}

func killedWriter(c *record.Seen) {
	for i := range 10 {
		r, w, err := os.Pipe()
		c.Must(err)
		p, err := os.StartProcess("/proc/self/exe", []string{"self", record.Word, "child", "endless", fmt.Sprint("k", i)}, &os.ProcAttr{Files: []*os.File{nil, w, nil}})
		c.Must(err)
		c.Must(w.Close())
		_, err = io.ReadFull(r, make([]byte, 1))
		c.Must(err)
		c.Must(p.Kill())
		_, err = p.Wait()
		c.Must(err)
		c.Must(r.Close())
	}
	entries, err := os.ReadDir(".")
	c.Err("list", err)
	c.See("directories", len(entries))
	for _, e := range entries {
		c.Must(os.RemoveAll(e.Name()))
	}
}

// Children are what checks start in processes of their own.
func Children() map[string]func(args []string, out io.Writer) int {
	say := func(out io.Writer, v any) int { fmt.Fprintln(out, v); return 0 }
	return map[string]func([]string, io.Writer) int{
		"nothing": func([]string, io.Writer) int { return 0 },
		"wait": func([]string, io.Writer) int {
			_, _ = io.ReadAll(os.Stdin)
			return 0
		},
		"has": func(a []string, out io.Writer) int {
			fd, _ := strconv.Atoi(a[0])
			var st unix.Stat_t
			err := unix.Fstat(fd, &st)
			return say(out, err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG)
		},
		"create": func(a []string, out io.Writer) int {
			if len(a) > 1 {
				mask, _ := strconv.ParseInt(a[1], 8, 32)
				unix.Umask(int(mask))
			}
			_, err := unix.Open(a[0], unix.O_WRONLY|unix.O_CREAT, 0o666)
			return say(out, record.Name(err))
		},
		"flock": func(a []string, out io.Writer) int {
			fd, err := unix.Open(a[0], unix.O_RDONLY, 0)
			if err == nil {
				err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
			}
			return say(out, record.Name(err))
		},
		"fcntl": func(a []string, out io.Writer) int {
			from, _ := strconv.ParseInt(a[1], 10, 64)
			length, _ := strconv.ParseInt(a[2], 10, 64)
			fd, err := unix.Open(a[0], unix.O_RDWR, 0)
			if err == nil {
				err = setlk(fd, unix.F_SETLK, unix.F_WRLCK, from, length)
			}
			return say(out, record.Name(err))
		},
		"holder": func(a []string, out io.Writer) int {
			fd, err := unix.Open(a[0], unix.O_RDWR, 0)
			l := unix.Flock_t{Type: unix.F_WRLCK}
			if err == nil {
				err = unix.FcntlFlock(uintptr(fd), unix.F_GETLK, &l)
			}
			return say(out, fmt.Sprint(record.Name(err), ",", l.Type == unix.F_WRLCK, ",", fmt.Sprint(l.Pid) == a[1], ",", l.Len))
		},
		"append":        appendLines,
		"endless":       endless,
		"limit":         limited,
		"full":          withoutDescriptors,
		"reopen-stdout": reopenStdout,
		"receive":       receive,
	}
}

func appendLines(a []string, out io.Writer) int {
	count, _ := strconv.Atoi(a[2])
	fd, err := unix.Open(a[0], unix.O_WRONLY|unix.O_APPEND, 0)
	n := 0
	for ; err == nil && n < count; n++ {
		_, err = unix.Write(fd, []byte(a[1]+"\n"))
	}
	fmt.Fprintln(out, n)
	return 0
}

// endless makes and removes files until it is killed.
func endless(a []string, out io.Writer) int {
	if unix.Mkdir(a[0], 0o755) != nil {
		return 1
	}
	fmt.Fprint(out, ".")
	for i := 0; ; i++ {
		n := fmt.Sprintf("%s/%d", a[0], i%100)
		fd, err := unix.Open(n, unix.O_WRONLY|unix.O_CREAT, 0o644)
		if err == nil {
			_, _ = unix.Write(fd, []byte(n))
			record.CloseAll(fd)
		}
		_ = unix.Rename(n, n+"r")
		_ = unix.Unlink(n + "r")
	}
}

// limited does something with a limit of 100 bytes for files, SIGXFSZ ignored.
func limited(a []string, out io.Writer) int {
	signal.Ignore(syscall.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 100, Max: 100}); err != nil {
		fmt.Fprintln(out, record.Name(err))
		return 0
	}
	fd, err := unix.Open(a[1], unix.O_RDWR|unix.O_CREAT, 0o644)
	if err != nil {
		fmt.Fprintln(out, record.Name(err))
		return 0
	}
	n := 0
	switch a[0] {
	case "write":
		n, err = unix.Write(fd, make([]byte, 150))
		if err == nil {
			_, err = unix.Write(fd, make([]byte, 1))
		}
	case "pwrite":
		n, err = unix.Pwrite(fd, make([]byte, 10), 200)
	case "fallocate":
		err = unix.Fallocate(fd, 0, 0, 200)
	case "copy":
		_, _ = unix.Write(fd, make([]byte, 80))
		var off int64
		n, err = unix.CopyFileRange(fd, &off, fd, nil, 50, 0)
	case "truncate":
		err = unix.Truncate(a[1], 200)
	case "ftruncate":
		err = unix.Ftruncate(fd, 200)
	case "shrink":
		err = unix.Truncate(a[1], 2)
	}
	fmt.Fprintf(out, "%d,%s\n", n, record.Name(err))
	return 0
}

// withoutDescriptors opens until there are no more and then tries to make things.
func withoutDescriptors(a []string, out io.Writer) int {
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}); err != nil {
		fmt.Fprintln(out, record.Name(err))
		return 0
	}
	var said []string
	for {
		if _, err := unix.Open(a[0], unix.O_WRONLY, 0); err != nil {
			said = append(said, "open:"+record.Name(err))
			break
		}
	}
	for label, f := range record.Ordered(map[string]func() error{
		"a-create": func() error { _, err := unix.Open("new", unix.O_WRONLY|unix.O_CREAT, 0o644); return err },
		"b-excl":   func() error { _, err := unix.Open("excl", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644); return err },
		"c-trunc":  func() error { _, err := unix.Open(a[0], unix.O_WRONLY|unix.O_TRUNC, 0); return err },
		"d-tmp":    func() error { _, err := unix.Open(".", unix.O_WRONLY|unix.O_TMPFILE, 0o600); return err },
		"e-read":   func() error { _, err := unix.Open(a[0], unix.O_RDONLY, 0); return err },
		"f-mkdir":  func() error { return unix.Mkdir("made", 0o755) },
		"g-link":   func() error { return unix.Link(a[0], "linked") },
		"h-none":   func() error { _, err := unix.Open("no/new", unix.O_WRONLY|unix.O_CREAT, 0o644); return err },
	}) {
		said = append(said, label+":"+record.Name(f()))
	}
	c := &record.Seen{Parts: said}
	c.Sort()
	fmt.Fprintln(out, strings.Join(c.Parts, ","))
	return 0
}

// reopenStdout opens a file as its standard output, and that by its name below /dev.
func reopenStdout(_ []string, out io.Writer) int {
	fd, err := unix.Open("stdout", unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, 0o644)
	saved, dupErr := unix.Dup(1)
	if err != nil || dupErr != nil || unix.Dup3(fd, 1, 0) != nil {
		return 1
	}
	again, err := unix.Open("/dev/stdout", unix.O_WRONLY|unix.O_APPEND, 0)
	_, _ = unix.Write(again, []byte("again"))
	_ = unix.Dup3(saved, 1, 0)
	b, readErr := os.ReadFile("stdout")
	fmt.Fprintln(out, record.Name(err), record.Name(readErr), string(b))
	return 0
}

// receive takes descriptors from the socket that is descriptor 0 and uses them.
func receive(a []string, out io.Writer) int {
	b, oob := make([]byte, 1), make([]byte, 200)
	_, n, _, _, err := unix.Recvmsg(0, b, oob, 0)
	var fds []int
	if err == nil {
		messages, _ := unix.ParseSocketControlMessage(oob[:n])
		for _, m := range messages {
			got, _ := unix.ParseUnixRights(&m)
			fds = append(fds, got...)
		}
	}
	if len(fds) != 3 {
		fmt.Fprintln(out, record.Name(err), len(fds))
		return 0
	}
	_, err = unix.Write(fds[0], []byte("passed"))
	said := []string{record.Name(err)}
	_, err = unix.Openat(fds[1], a[0], unix.O_WRONLY|unix.O_CREAT, 0o644)
	said = append(said, record.Name(err), record.Name(unix.Fchmod(fds[1], 0o700)))
	w, err := unix.Open(record.ProcFD(fds[2]), unix.O_WRONLY|unix.O_APPEND, 0)
	_, writeErr := unix.Write(w, []byte("opened"))
	said = append(said, record.Name(err), record.Name(writeErr))
	fmt.Fprintln(out, strings.Join(said, ","))
	return 0
}

// unrestarted takes SA_RESTART off Go's handler of a signal.
func unrestarted(sig syscall.Signal) error {
	var act struct {
		handler, flags, restorer uintptr
		mask                     uint64
	}
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&act)), 8, 0, 0)
	if e == 0 {
		act.flags &^= 0x10000000 // SA_RESTART
		_, _, e = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&act)), 0, 8, 0, 0)
	}
	return record.NoError(e)
}
