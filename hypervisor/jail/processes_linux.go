package jail

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Processes returns how many processes other than PID 1 are alive inside, so
// that a step whose last process has ended need not wait for late writes. Where
// there are some it does not see into pid namespaces that were made inside.
func (g *guest) Processes() (int, error) {
	proc := "/proc/" + strconv.Itoa(g.pid)
	if childless(proc, g.pid) {
		return 0, nil
	}
	inside, err := os.Readlink(proc + "/ns/pid")
	if err != nil {
		return 0, err
	}
	names, err := numbers("/proc")
	if err != nil {
		return 0, err
	}
	n := 0
	for _, name := range names {
		if name == strconv.Itoa(g.pid) {
			continue
		}
		// A process of somebody else cannot be read, and is not one of ours.
		if ns, err := os.Readlink("/proc/" + name + "/ns/pid"); err == nil && ns == inside {
			n++
		}
	}
	return n, nil
}

// childless reports whether the process surely has no children, which for PID 1
// means that nobody else is alive inside: an orphan becomes a child of its first
// thread, which is therefore looked at last. Every step asks this at its end, and
// it takes a few system calls where a look at each process of the host takes a
// millisecond. The kernel may lack the list (CONFIG_PROC_CHILDREN): then nothing
// is sure.
func childless(proc string, pid int) bool {
	dir, err := unix.Open(proc+"/task", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	var threads []string
	for buf := make([]byte, 2048); ; {
		n, err := unix.ReadDirent(dir, buf)
		if err != nil {
			return false
		}
		if n == 0 {
			break
		}
		_, _, threads = unix.ParseDirent(buf[:n], -1, threads)
	}
	first := strconv.Itoa(pid)
	for _, tid := range threads {
		// A thread that has ended meanwhile has left its children to the first.
		if tid != first && !empty(dir, tid+"/children", true) {
			return false
		}
	}
	return empty(dir, first+"/children", false)
}

// empty reports whether nothing can be read from a file in dir, which may be
// missing.
func empty(dir int, path string, missing bool) bool {
	fd, err := unix.Openat(dir, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return missing && errors.Is(err, unix.ENOENT)
	}
	defer unix.Close(fd)
	var b [1]byte
	n, err := unix.Read(fd, b[:])
	return n == 0 && (err == nil || missing && errors.Is(err, unix.ESRCH))
}
