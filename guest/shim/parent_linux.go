package shim

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// A program that finds process 1 as its parent takes itself for left behind (nnn, PyQS), so process 1 is no command's parent. A command that has
// no leader gets a parent of a few instructions (parent_linux_*.s). That starts the command, waits for it, and ends as it has ended. It leads no
// session but its own, has nothing open, and no signal but KILL and STOP acts on it.

// parentProgram is the program that is a command's parent; nil where there is none. Its arguments are "TN", the path of the command's program, and the
// command's arguments. T is the descriptor whose terminal becomes the command's own, or "-". To N the command's number is written and, below 0, why the command
// does not run. N+1 is the program itself. If there can be no second process, it becomes the command, and writes nothing.
var parentProgram = sync.OnceValue(func() *os.File {
	code := parentText()
	if code == nil {
		return nil
	}
	f, err := control.SealedProgram(func() ([]byte, error) { return executable(code) })
	if err != nil {
		return nil
	}
	return f
})

// parentText is the code of the program, up to its mark.
func parentText() []byte {
	const most = 4096
	start, _ := parentCode()
	if start == nil {
		return nil
	}
	for n := range most {
		if *(*[8]byte)(unsafe.Add(start, n)) == [8]byte([]byte("endofit.")) {
			return unsafe.Slice((*byte)(start), n)
		}
	}
	return nil
}

// executable is an ELF file of nothing but code, which may lie anywhere.
func executable(code []byte) ([]byte, error) {
	type header struct {
		Ident                                   [16]byte
		Type, Machine                           uint16
		Version                                 uint32
		Entry, Segments, Sections               uint64
		Flags                                   uint32
		Size, SegmentSize, SegmentCount         uint16
		SectionSize, SectionCount, SectionNames uint16
		Code, Stack                             segment
	}
	const at, room = 0x400000, 64 + 2*56
	_, machine := parentCode()
	size := uint64(room + len(code))
	b, err := binary.Append(nil, binary.LittleEndian, header{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: 2, Machine: machine, Version: 1, Entry: at + room, Segments: 64,
		Size: 64, SegmentSize: 56, SegmentCount: 2,
		Code:  segment{Type: 1, Flags: 5, Address: at, File: size, Memory: size, Align: 0x10000},
		Stack: segment{Type: 0x6474e551, Flags: 6},
	})
	return append(b, code...), err
}

// segment is a program header.
type segment struct {
	Type, Flags                                    uint32
	Offset, Address, Physical, File, Memory, Align uint64
}

// wantsParent tells whether the command is to be started by a program of ours. Where we are not process 1, we are its parent.
func (c *command) wantsParent() bool {
	return c.s.o.Init && c.s.o.Parents && !c.wantsLeader() && parentProgram() != nil
}

// startBelow starts a command below a parent of its own, and returns the parent's number. On error nothing is left.
func (c *command) startBelow(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return 0, os.NewSyscallError("pipe2", err)
	}
	defer unix.Close(p[0])
	n := len(attr.Files)
	terminal := "-"
	if attr.Sys.Setctty {
		terminal, attr.Sys.Setctty = strconv.Itoa(attr.Sys.Ctty), false
	}
	argv = append([]string{control.GuestProgram, terminal + strconv.Itoa(n), path}, argv...)
	attr.Files = append(attr.Files, uintptr(p[1]), parentProgram().Fd())
	path = "/proc/self/fd/" + strconv.Itoa(n+1)
	if c.m.Limits != nil {
		argv, err = limitedArgs(c.m.Limits, path, argv)
		path = "/proc/self/exe"
	}
	if err == nil {
		pid, err = syscall.ForkExec(path, argv, attr)
	}
	_ = unix.Close(p[1])
	if err != nil {
		return 0, err
	}
	if c.group, err = hear(p[0]); err != nil {
		c.group = 0
		return 0, err
	}
	return pid, nil
}

// hear reads what a parent and its child tell, until they have let go of the pipe: the command's number, which is 0 if the parent
// itself becomes the command, and why the command does not run.
func hear(fd int) (pid int, err error) {
	var b [16]byte
	for n := 0; n < len(b); {
		switch got, err := unix.Read(fd, b[n:]); {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, fmt.Errorf("the command's parent: %w", err)
		case got == 0:
			return told(b[:n])
		default:
			n += got
		}
	}
	return told(b[:])
}

// told is what was heard.
func told(b []byte) (pid int, err error) {
	for ; len(b) >= 8; b = b[8:] {
		switch n := int64(binary.NativeEndian.Uint64(b)); {
		case n < 0:
			return 0, syscall.Errno(-n)
		default:
			pid = int(n)
		}
	}
	return pid, nil
}

// parent is the number of the program above the command that we are the parent of; 0 if there is none.
func (c *command) parent() int {
	if c.leader != nil || c.group == 0 {
		return 0
	}
	return c.pid
}

// register notes whose end is the command's; the caller holds the lock. If its parent is killed, we become the command's own.
func (s *Server) register(c *command) {
	s.byPID[c.pid] = c
	if c.parent() != 0 {
		s.byPID[c.group] = c
	}
	for _, pid := range []int{c.group, c.pid} {
		if st, ok := s.early[pid]; ok && s.byPID[pid] == c && s.over(c, pid, st.WaitStatus) {
			st.alone = s.alone()
			c.exited <- st
		}
	}
}

// over tells whether a command has ended, now that one of its processes has, and forgets that or both; the caller holds the lock.
func (s *Server) over(c *command, pid int, st unix.WaitStatus) bool {
	delete(s.byPID, pid)
	if pid == c.parent() && st.Signaled() && st.Signal() == unix.SIGKILL &&
		unix.Waitid(unix.P_PID, c.group, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == nil {
		return false // it was killed, and has not waited for the command
	}
	if c.parent() != 0 {
		delete(s.byPID, c.pid)
		delete(s.byPID, c.group)
	}
	return true
}
