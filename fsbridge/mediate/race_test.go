//go:build linux

package mediate

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// races is how many calls are tried while their paths change, if SANDBOX_RACES does not say it.
const races = 12_000

// swapsWork tries each kind of call on paths that others swap with symlinks to the
// outside, and says how many descriptors of outside files it got.
func swapsWork(w *workload) {
	outside := make(map[uint64]bool)
	for _, p := range []string{"f", "g", "d", "."} {
		var st unix.Stat_t
		if unix.Stat("../out/"+p, &st) == nil {
			outside[st.Ino] = true
		}
	}
	leaks, done := 0, 0
	opened := func(fd int, err error) {
		if err != nil {
			return
		}
		done++
		var st unix.Stat_t
		_ = unix.Fstat(fd, &st)
		if _, err := unix.Write(fd, []byte("leak")); err == nil && outside[st.Ino] {
			leaks++
		}
		_ = unix.Close(fd)
	}
	note := func(err error) {
		if err == nil {
			done++
		}
	}
	n := atoi(w.args[0])
	for i := range n {
		opened(unix.Open("dir/f", unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, 0o600))
		opened(unix.Open("last", unix.O_RDWR|unix.O_CREAT, 0o600))
		opened(unix.Open("dir/new"+strconv.Itoa(i%7), unix.O_WRONLY|unix.O_CREAT, 0o600))
		note(unix.Unlink("dir/new" + strconv.Itoa(i%7)))
		note(unix.Mkdir("dir/made", 0o700))
		note(unix.Rmdir("dir/made"))
		note(unix.Rename("dir/g", "dir/h"))
		note(unix.Rename("dir/h", "dir/g"))
		note(unix.Link("dir/f", "dir/linked"))
		note(unix.Unlink("dir/linked"))
		note(unix.Chmod("last", 0o640))
		note(unix.Truncate("last", 3))
		note(unix.Symlink("x", "dir/sym"))
		note(unix.Unlink("dir/sym"))
		note(unix.Utimes("dir/f", []unix.Timeval{{Sec: 1}, {Sec: 2}}))
		opened(unix.Open("dir", unix.O_TMPFILE|unix.O_RDWR, 0o600))
	}
	w.say("leaks %d done %v", leaks, done > n)
}

// raceWork changes the text of a path while it is looked at.
func raceWork(w *workload) {
	path := []byte("dir/ff/f\x00")
	var stop atomic.Bool
	go func() {
		runtime.LockOSThread()
		for !stop.Load() {
			copy(path, "../out/f")
			copy(path, "dir/ff/f")
		}
	}()
	var want unix.Stat_t
	_ = unix.Stat("../out/f", &want)
	leaks, done := 0, 0
	for range atoi(w.args[0]) {
		at := unix.AT_FDCWD
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(&path[0])), unix.O_RDWR|unix.O_TRUNC, 0, 0, 0)
		if errno != 0 {
			continue
		}
		done++
		var st unix.Stat_t
		_ = unix.Fstat(int(fd), &st)
		if st.Ino == want.Ino {
			leaks++
		}
		_ = unix.Close(int(fd))
		_, _, _ = unix.Syscall(unix.SYS_FCHMODAT, uintptr(at), uintptr(unsafe.Pointer(&path[0])), 0o600)
	}
	stop.Store(true)
	w.say("leaks %d done %v", leaks, done > 0)
}

// tablesWork uses descriptors that another thread replaces and closes all the time.
func tablesWork(w *workload) {
	const n = 100
	var dirs, files [2]int
	for i, d := range []string{"dir", "../out"} {
		dirs[i], _ = unix.Open(d, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		files[i], _ = unix.Open(d+"/f", unix.O_RDONLY, 0)
	}
	var want unix.Stat_t
	_ = unix.Stat("../out/f", &want)
	var stop atomic.Bool
	go func() {
		runtime.LockOSThread()
		for i := 0; !stop.Load(); i++ {
			_ = unix.Dup3(dirs[i%2], n, 0)
			_ = unix.Dup3(files[i%2], n+1, 0)
			if i%5 == 0 {
				_ = unix.Close(n)
			}
		}
	}()
	leaks, done := 0, 0
	note := func(err error) {
		if err == nil {
			done++
		}
	}
	for range atoi(w.args[0]) {
		if fd, err := unix.Openat(n, "f", unix.O_RDWR, 0); err == nil {
			var st unix.Stat_t
			_ = unix.Fstat(fd, &st)
			if st.Ino == want.Ino {
				leaks++
			}
			done++
			_ = unix.Close(fd)
		}
		note(unix.Mkdirat(n, "made", 0o755))
		note(unix.Unlinkat(n, "made", unix.AT_REMOVEDIR))
		note(unix.Fchmod(n+1, 0o640))
		note(unix.Fsetxattr(n+1, "user.a", []byte("v"), 0))
		note(unix.Futimes(n+1, []unix.Timeval{{Sec: 1}, {Sec: 2}}))
	}
	stop.Store(true)
	w.say("leaks %d done %v", leaks, done > 0)
}

// Descriptors that are replaced and closed during the answer lead to nothing outside.
func TestMBSwappedDescriptors(t *testing.T) {
	j := outsideJail(t)
	before := treesnap.MustTake(t, j.out)
	if out := j.start("tables", strconv.Itoa(require.Tries(t, races/6))).ok(); out != "leaks 0 done true\n" {
		t.Error(out)
	}
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, j.out))
}

// outsideJail is a folder beside a directory that nobody may change.
func outsideJail(t *testing.T) *jail {
	j := newJail(t)
	j.shut = j.out
	for _, d := range []string{"dir", "dir/ff", "other"} {
		check(t, os.Mkdir(filepath.Join(j.folder, d), 0o755))
	}
	for _, d := range []string{filepath.Join(j.folder, "dir"), filepath.Join(j.folder, "dir/ff"), j.out} {
		put(filepath.Join(d, "f"), "content of f")
		put(filepath.Join(d, "g"), "content of g")
	}
	put(filepath.Join(j.folder, "last"), "last")
	check(t, os.Mkdir(filepath.Join(j.out, "d"), 0o755))
	check(t, os.Symlink("../out", filepath.Join(j.folder, "link")))
	check(t, os.Symlink("../out/f", filepath.Join(j.folder, "lastlink")))
	return j
}

// swap exchanges names of the folder all the time until stop is called, which says how
// often.
func (j *jail) swap(pairs ...[2]string) (stop func() int64) {
	var ended atomic.Bool
	var n atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !ended.Load() {
			for _, p := range pairs {
				if unix.Renameat2(unix.AT_FDCWD, filepath.Join(j.folder, p[0]), unix.AT_FDCWD, filepath.Join(j.folder, p[1]), unix.RENAME_EXCHANGE) == nil {
					n.Add(1)
				}
			}
		}
	}()
	return func() int64 { ended.Store(true); <-done; return n.Load() }
}

// Nothing outside is changed, whatever a path becomes between two looks at it.
func TestMBSwappedDirectories(t *testing.T) {
	j := outsideJail(t)
	before := treesnap.MustTake(t, j.out)
	in := j.start("swaps", strconv.Itoa(require.Tries(t, races/16)))
	stop := j.swap([2]string{"dir", "link"}, [2]string{"last", "lastlink"})
	out := in.ok()
	if n := stop(); n < 100 {
		t.Errorf("swapped %d times only", n)
	}
	if out != "leaks 0 done true\n" {
		t.Error(out)
	}
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, j.out))
	if n := j.hooks.begun(); n != 0 {
		t.Errorf("%d operations were begun and not ended", n)
	}
}

func TestMBSwappedText(t *testing.T) {
	j := outsideJail(t)
	before := treesnap.MustTake(t, j.out)
	if out := j.start("race", strconv.Itoa(require.Tries(t, races))).ok(); out != "leaks 0 done true\n" {
		t.Error(out)
	}
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, j.out))
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// limitsWork runs into limits.
func limitsWork(w *workload) {
	var old unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &old)
	low := old
	low.Cur = 20
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &low)
	var fds []int
	var err error
	for range 100 {
		var fd int
		if fd, err = unix.Open("f", unix.O_WRONLY|unix.O_CREAT, 0o644); err != nil {
			break
		}
		fds = append(fds, fd)
	}
	w.say("files %v %v", len(fds) < 20, err)
	// Neither makes nor empties a file.
	_, err = unix.Open("full", unix.O_WRONLY|unix.O_TRUNC, 0)
	_, err2 := unix.Open("never", unix.O_WRONLY|unix.O_CREAT, 0o644)
	var full, never unix.Stat_t
	w.say("%v %v %v %d %v", err, err2, unix.Stat("full", &full), full.Size, unix.Stat("never", &never))
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	runtime.LockOSThread()
	// A program is executed as soon as it was written: nobody else has it open.
	busy := 0
	self, _ := os.ReadFile("/bin/true")
	for i := range 200 {
		name := fmt.Sprintf("program%d", i%3)
		_ = os.Remove(name)
		if err := os.WriteFile(name, self, 0o755); err != nil {
			w.say("%v", err)
		}
		pid, err := syscall.ForkExec(name, []string{name}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
		if err != nil {
			busy++
			continue
		}
		_, _ = syscall.Wait4(pid, nil, 0, nil)
	}
	w.say("busy %d", busy)
	// A lock is free as soon as its descriptor is closed.
	locked := 0
	for range 500 {
		fd, _ := unix.Open("lock", unix.O_RDWR|unix.O_CREAT, 0o644)
		if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
			locked++
		}
		_ = unix.Close(fd)
	}
	w.say("locked %d", locked)
}

func TestMBLimits(t *testing.T) {
	j := newJail(t)
	put(filepath.Join(j.folder, "full"), "content")
	want := "files true too many open files\ntoo many open files too many open files <nil> 7 no such file or directory\nbusy 0\nlocked 0\n"
	if out := j.start("limits").ok(); out != want {
		t.Errorf("%s, want %s", out, want)
	}
}

// umaskWork makes files in processes with umasks of their own and with a shared one.
func umaskWork(w *workload) {
	unix.Umask(0o022)
	mode := func(name string) string {
		fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o777)
		if err != nil {
			return err.Error()
		}
		_ = unix.Close(fd)
		var st unix.Stat_t
		_ = unix.Stat(name, &st)
		return fmt.Sprintf("%o", st.Mode&0o777)
	}
	for i, mask := range []int{0o077, 0, 0o777, 0o027} {
		unix.Umask(mask)
		w.say("%s", mode(fmt.Sprintf("own%d", i)))
	}
	// Threads share a umask: one sets it, another makes files.
	do, done := make(chan int), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		for mask := range do {
			unix.Umask(mask)
			done <- struct{}{}
		}
	}()
	wrong := 0
	for i := range 300 {
		mask := []int{0o022, 0o077, 0o002}[i%3]
		do <- mask
		<-done
		if got := mode(fmt.Sprintf("shared%d", i)); got != fmt.Sprintf("%o", 0o777&^mask) {
			wrong++
		}
	}
	w.say("wrong %d", wrong)
	unix.Umask(0o022)
	// A child has its own from then on.
	for i := range 20 {
		p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", fmt.Sprintf("umask 077; : > child%d", i)}, &os.ProcAttr{})
		if err == nil {
			_, _ = p.Wait()
		}
		var st unix.Stat_t
		_ = unix.Stat(fmt.Sprintf("child%d", i), &st)
		if got := mode(fmt.Sprintf("parent%d", i)); got != "755" || st.Mode&0o777 != 0o600 {
			w.say("parent %s child %o", got, st.Mode)
		}
	}
}

func TestMBUmask(t *testing.T) {
	j := newJail(t)
	if out := j.start("umask").ok(); out != "700\n777\n0\n750\nwrong 0\n" {
		t.Error(out)
	}
}

// specialWork tries to make setuid files, and to write into those that there are. It has everything that should be refused.
func specialWork(w *workload) {
	put("f", "")
	fd, _ := unix.Open("f", unix.O_RDWR, 0)
	ro, _ := unix.Open("f", unix.O_RDONLY, 0)
	for _, mode := range []uint32{0o4755, 0o2755} {
		path := fmt.Sprintf("/proc/self/fd/%d", fd)
		at := unix.AT_FDCWD
		w.say("%v %v %v %v %v", unix.Chmod("f", mode), unix.Fchmod(fd, mode), unix.Fchmod(ro, mode), unix.Chmod(path, mode), unix.Fchmodat(at, path, mode, 0))
		n, err := unix.Open(fmt.Sprintf("new%o", mode), unix.O_RDWR|unix.O_CREAT, mode)
		w.say("%v %v %v", err, unix.Fchmod(n, mode), unix.Mknod(fmt.Sprintf("node%o", mode), unix.S_IFREG|mode, 0))
		t, err := unix.Open(".", unix.O_RDWR|unix.O_TMPFILE, mode)
		w.say("%v %v %v", err, unix.Fchmod(t, mode), unix.Linkat(at, fmt.Sprintf("/proc/self/fd/%d", t), at, fmt.Sprintf("tmp%o", mode), unix.AT_SYMLINK_FOLLOW))
	}
	put("gone", "")
	gone, _ := unix.Open("gone", unix.O_RDWR, 0)
	_ = unix.Unlink("gone")
	_, _ = unix.Fchmod(gone, 0o4755), unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", gone), 0o2755)
	var st unix.Stat_t
	if unix.Fstat(gone, &st) == nil && st.Mode&0o6000 != 0 {
		w.say("what is gone has %o", st.Mode)
	}
	_ = os.Mkdir("d", 0o755)
	_ = os.Mkdir("../out/d", 0o755)
	put("../out/f", "")
	w.say("%v %v %v", unix.Chmod("d", 0o6755), unix.Chmod("../out/d", 0o2755), unix.Chmod("../out/f", 0o4755))
	w.say("%v %v", unix.Chmod("same", 0o6755), unix.Stat("same", &st))
	w.say("same %o", st.Mode&0o7777)
	w.say("%v %v", unix.Chmod("wider", 0o4711), unix.Stat("wider", &st))
	w.say("wider %o", st.Mode&0o7777)
	if fd, err := unix.Open("mapped", unix.O_RDWR, 0); err == nil {
		if b, err := unix.Mmap(fd, 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
			copy(b, "code")
			w.say("%v", unix.Msync(b, unix.MS_SYNC))
		}
		w.say("%v", unix.Chmod("mapped", 0o6755))
	}
	_ = filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if unix.Lstat(path, &st) == nil && st.Mode&0o6000 != 0 {
			w.say("%s has %o", path, st.Mode)
		}
		return nil
	})
}

// TestMBSpecialModes: there is no program with its owner's rights afterwards but the one that there was, as it was.
func TestMBSpecialModes(t *testing.T) {
	j := newJail(t)
	for name, mode := range map[string]uint32{"same": 0o6755, "wider": 0o4700, "mapped": 0o6755} {
		path := filepath.Join(j.folder, name)
		check(t, os.WriteFile(path, []byte("text"), 0o755))
		check(t, unix.Chmod(path, mode))
	}
	yes := strings.Repeat("<nil> ", 4) + "<nil>\n" + strings.Repeat("<nil> <nil> <nil>\n", 2)
	want := yes + yes + "<nil> <nil> <nil>\n<nil> <nil>\nsame 6755\n<nil> <nil>\nwider 711\n<nil>\n<nil>\nd has 46755\nsame has 106755\n"
	if out := j.start("special").ok(); out != want {
		t.Errorf("got:\n%swant:\n%s", out, want)
	}
}
