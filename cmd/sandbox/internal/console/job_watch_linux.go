package console

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watchProgram is argv[0] of a watch.
const watchProgram = "sandbox-watch"

// watch is a process that looks after this one while it is stopped. A process that has a session serves others, too: commands that have joined it, what
// the command left in the background, who asks for its status or its end. If there is something to read for this one,
// the watch says so and continues it.
type watch struct {
	cmd *exec.Cmd
	say *os.File
}

// startWatch starts one. It lives no longer than the thread that has called.
func startWatch() (*watch, error) {
	files, err := served()
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{watchProgram, strconv.Itoa(os.Getpid()), strconv.Itoa(len(files))}
	cmd.Env = []string{"GOMAXPROCS=1"}
	cmd.ExtraFiles = append([]*os.File{w}, files...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		_ = r.Close()
		return nil, err
	}
	return &watch{cmd, r}, nil
}

// end ends the watch, and reports whether it has said that there is something to do.
func (w *watch) end() bool {
	if w == nil {
		return false
	}
	_ = w.cmd.Process.Kill() // it may have ended
	_ = w.cmd.Wait()
	defer w.say.Close()
	n, _ := w.say.Read(make([]byte, 1)) // its other end is closed
	return n > 0
}

// served are copies of the descriptors at which others may want something of this process: sockets, and what system calls and accesses to files are answered at.
func served() (files []*os.File, err error) {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	for _, e := range names {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < 3 {
			continue
		}
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || !strings.HasPrefix(to, "socket:") && to != "/dev/fuse" && to != "anon_inode:seccomp notify" {
			continue // it was the directory's own
		}
		if c, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3); err == nil {
			files = append(files, os.NewFile(uintptr(c), "served"))
		}
	}
	return files, nil
}

// IsWatch tells whether this program was started as a watch.
func IsWatch(args []string) bool { return len(args) == 3 && args[0] == watchProgram }

// Watch is the watch. It returns the exit status.
func Watch(args []string) int {
	pid, err := strconv.Atoi(args[1])
	if err != nil {
		return 1
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return 1
	}
	fds := make([]unix.PollFd, n)
	for i := range fds {
		fds[i] = unix.PollFd{Fd: int32(4 + i), Events: unix.POLLIN}
	}
	for !hasStopped(pid) {
		if os.Getppid() != pid {
			return 1
		}
		time.Sleep(time.Millisecond)
	}
	if !wanted(fds) || os.Getppid() != pid {
		return 1
	}
	if _, err := unix.Write(3, []byte{1}); err != nil {
		return 1
	}
	if err := unix.Kill(pid, unix.SIGCONT); err != nil {
		return 1
	}
	return 0
}

// wanted returns when there is something to read, or when it cannot wait for that.
func wanted(fds []unix.PollFd) bool {
	if _, err := unix.Poll(fds, 0); err == nil {
		for i := range fds {
			if fds[i].Revents&unix.POLLHUP != 0 {
				fds[i].Fd = -1 // it has ended before, and was left
			}
		}
	}
	for {
		n, err := unix.Poll(fds, -1)
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// hasStopped tells whether all of a process has stopped.
func hasStopped(pid int) bool {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, t := range threads {
		stat, err := os.ReadFile(dir + "/" + t.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(f) == 0 || f[0][0] != 'T' && f[0][0] != 'Z' && f[0][0] != 'X' {
			return false
		}
	}
	return len(threads) > 0
}
