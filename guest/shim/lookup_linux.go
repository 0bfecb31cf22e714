package shim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// search is what a command is started from: its own directory and environment.
//
// All that the kernel will look up while it executes the program is looked up before: the directory, the program, and what
// interprets it. A lookup may have to wait for a person's decision. Here that costs a thread. Between fork and exec it would stop
// this whole process, since the Go runtime keeps the processor of a thread that forks, and this process has but one.
type search struct {
	dir, path string
	// over says, of a lookup that was interrupted, whether it shall not go on.
	over func() bool
}

func newSearch(dir string, env []string, over func() bool) search {
	return search{dir: dir, path: pathOf(env), over: over}
}

// again makes a system call until nothing interrupts it, or the search is over.
func (s search) again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR || s.over() {
			return err
		}
	}
}

// program finds a program as execvp does. The error wraps errNotFound where nothing by that name exists.
func (s search) program(name string) (string, error) {
	var st unix.Stat_t
	if err := s.again(func() error { return unix.Stat(s.dir, &st) }); err != nil {
		return "", fmt.Errorf(control.NoDirectory+"%s: %w", s.dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return "", fmt.Errorf(control.NoDirectory+"%s: %w", s.dir, unix.ENOTDIR)
	}
	if name == "" {
		return "", fmt.Errorf("%q: %w", name, errNotFound)
	}
	if strings.Contains(name, "/") {
		err := s.executable(name)
		if err == unix.ENOENT || err == unix.ENOTDIR {
			return "", fmt.Errorf("%s: %w", name, errNotFound)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		s.interpreters(name)
		return name, nil
	}
	var denied error
	for _, d := range filepath.SplitList(s.path) {
		if d == "" {
			d = "."
		}
		p := d + "/" + name
		switch err := s.executable(p); err {
		case nil:
			s.interpreters(p)
			return p, nil
		case unix.ENOENT, unix.ENOTDIR:
		default:
			// A directory of the user's PATH that the workload may not search is
			// no reason to call a name found.
			if s.again(func() error { return unix.Access(d, unix.X_OK) }) == nil {
				denied = err
			}
		}
	}
	if denied != nil {
		return "", fmt.Errorf("%s: %w", name, denied)
	}
	return "", fmt.Errorf("%s: %w", name, errNotFound)
}

// interpreters looks up what the kernel executes a program by. It reports no error: exec does.
func (s search) interpreters(path string) {
	const depth = 5 // of scripts that interpret scripts: BINPRM_MAX_RECURSION of fs/exec.c, and one more
	head := make([]byte, 4096)
	for range depth {
		n := s.read(s.absolute(path), head)
		if path = interpreter(head[:n]); path == "" || s.executable(path) != nil {
			return
		}
	}
}

// read fills b from a file's start, and returns how much there was.
func (s search) read(path string, b []byte) (n int) {
	var fd int
	err := s.again(func() (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	_ = s.again(func() (err error) {
		n, err = unix.Pread(fd, b, 0)
		return err
	})
	return max(n, 0)
}

// ptInterp is PT_INTERP of elf(5).
const ptInterp = 3

// interpreter returns what the kernel executes a file by that begins like this: the program that a script's first line
// names, or the dynamic loader of an ELF file whose headers are near its start. It is empty where there is none.
func interpreter(head []byte) string {
	if line, ok := bytes.CutPrefix(head, []byte("#!")); ok {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		if words := bytes.Fields(line); len(words) > 0 {
			return string(words[0])
		}
		return ""
	}
	le := binary.LittleEndian
	if len(head) < 64 {
		return ""
	}
	var at, size, count, least uint64
	word := func(b []byte, of32, of64 int) uint64 { return le.Uint64(b[of64:]) }
	switch string(head[:6]) {
	case "\x7fELF\x02\x01": // of 64 bits
		at, size, count, least = le.Uint64(head[32:]), uint64(le.Uint16(head[54:])), uint64(le.Uint16(head[56:])), 56
	case "\x7fELF\x01\x01": // of 32
		at, size, count, least = uint64(le.Uint32(head[28:])), uint64(le.Uint16(head[42:])), uint64(le.Uint16(head[44:])), 32
		word = func(b []byte, of32, of64 int) uint64 { return uint64(le.Uint32(b[of32:])) }
	default:
		return ""
	}
	room := uint64(len(head))
	for i := range count {
		begin := at + i*size
		if begin > room || room-begin < least || size < least {
			return ""
		}
		h := head[begin:]
		offset, length := word(h, 4, 8), word(h, 16, 32)
		if le.Uint32(h) == ptInterp && offset < room && length <= room-offset {
			name, _, _ := bytes.Cut(head[offset:offset+length], []byte{0})
			return string(name)
		}
	}
	return ""
}

func pathOf(env []string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if p, ok := strings.CutPrefix(env[i], "PATH="); ok {
			return p
		}
	}
	return "/usr/local/bin:/usr/bin:/bin"
}

func (s search) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return s.dir + "/" + path
}

func (s search) executable(path string) error {
	path = s.absolute(path)
	var st unix.Stat_t
	if err := s.again(func() error { return unix.Stat(path, &st) }); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.EISDIR
	}
	return s.again(func() error { return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) })
}
