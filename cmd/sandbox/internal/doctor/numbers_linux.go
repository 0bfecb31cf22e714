package doctor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

// Bounds of the search for files that name a process: names that are looked at, and findings.
const (
	mostNames   = 20_000
	mostNumbers = 8
)

// number is a file that names a process by its number, which is alive outside.
type number struct {
	path, program string
	pid           int
}

// numberFindings says which files of the folder name live processes of this machine: inside, nobody has these numbers, so a program that goes by one
// takes the file for stale. There is none if there are none.
func (h Host) numberFindings() []Finding {
	folder, _, err := h.Folder()
	if err != nil {
		return nil // folderFinding says so
	}
	var lines []string
	for _, n := range liveNumbers(folder) {
		lines = append(lines, fmt.Sprintf("%s names process %d (%s)", console.Shown(n.path), n.pid, console.Shown(n.program)))
	}
	if len(lines) == 0 {
		return nil
	}
	return []Finding{{
		Name: "process numbers", State: "warn",
		Detail: strings.Join(lines, ", ") + ": it runs outside, and a program in a jail or a machine takes the file for stale",
		Advice: "end it before a command starts another one on the same data (docs/filesystems.md)",
	}}
}

// liveNumbers looks for them, a level of directories after the other. Symbolic links are not followed, and what cannot be read is left out.
func liveNumbers(folder string) (list []number) {
	left := mostNames
	for queue := []string{folder}; len(queue) > 0 && left > 0 && len(list) < mostNumbers; queue = queue[1:] {
		dir, err := os.Open(queue[0])
		if err != nil {
			continue
		}
		for err == nil && left > 0 {
			var entries []fs.DirEntry
			entries, err = dir.ReadDir(256)
			for _, e := range entries {
				left--
				path := filepath.Join(queue[0], e.Name())
				if e.IsDir() && !slices.Contains(others, e.Name()) {
					queue = append(queue, path)
				} else if n, ok := liveNumber(path, e); ok && len(list) < mostNumbers {
					list = append(list, n)
				}
			}
		}
		_ = dir.Close() // it was read only
	}
	return list
}

// liveNumber tells whether a file names a process that may have written it.
func liveNumber(path string, e fs.DirEntry) (n number, ok bool) {
	pid := 0
	switch name := e.Name(); {
	case e.Type()&fs.ModeSymlink != 0 && (strings.HasPrefix(name, ".#") || strings.HasSuffix(name, "Lock")):
		pid = linkNumber(path)
	case !e.Type().IsRegular():
	case strings.HasSuffix(name, ".pid") || strings.HasSuffix(name, ".lock"):
		pid = textNumber(beginning(path))
	case strings.HasPrefix(name, ".") && len(filepath.Ext(name)) == 4 && strings.HasPrefix(filepath.Ext(name), ".sw"):
		pid = swapNumber(beginning(path))
	}
	if pid <= 1 {
		return n, false
	}
	info, err := e.Info()
	if err != nil {
		return n, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return n, false
	}
	program := writer(pid, st.Uid, info.ModTime())
	return number{path, program, pid}, program != ""
}

// linkNumber is that of a lock of Emacs (user@host.PID:boot) or of a browser's profile (host-PID).
func linkNumber(path string) int {
	text, err := os.Readlink(path)
	if err != nil {
		return 0
	}
	text, _, _ = strings.Cut(text, ":")
	return textNumber([]byte(text[strings.LastIndexAny(text, ".-")+1:]))
}

// textNumber is the number that is the first line.
func textNumber(text []byte) int {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	pid, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 32)
	if err != nil {
		return 0
	}
	return int(pid)
}

// swapNumber is that of Vim's swap files: 'b0', the version in 10 bytes, page size, time, inode, and the process, in 4 bytes each.
func swapNumber(head []byte) int {
	const at = 24
	if len(head) < at+4 || !bytes.HasPrefix(head, []byte("b0VIM")) {
		return 0
	}
	return int(int32(binary.LittleEndian.Uint32(head[at:])))
}

// beginning is what a regular file begins with, or nothing.
func beginning(path string) []byte {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, 64)
	n, _ := io.ReadFull(f, head)
	return head[:n]
}

// writer names the program of a live process that may have written a file of an owner's at a time; empty if there is none: the number may be
// another process's by now, or was one in a session.
func writer(pid int, owner uint32, wrote time.Time) string {
	dir := "/proc/" + strconv.Itoa(pid)
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil || st.Uid != owner {
		return ""
	}
	ours, err1 := os.Readlink("/proc/self/ns/pid")
	its, err2 := os.Readlink(dir + "/ns/pid")
	if err1 == nil && err2 == nil && ours != its {
		return ""
	}
	line, err := os.ReadFile(dir + "/cmdline")
	began, known := began(dir)
	if err != nil || len(line) == 0 || !known || began.After(wrote.Add(2*time.Second)) { // a thread of the kernel has no command line
		return ""
	}
	name, _, _ := bytes.Cut(line, []byte{0})
	return filepath.Base(string(name))
}

// began is when a process began, to a second.
func began(dir string) (t time.Time, ok bool) {
	text, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return t, false
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the third on
	if len(fields) < 20 {
		return t, false
	}
	const perSecond = 100 // USER_HZ, on each architecture that there is a jail for
	ticks, err := strconv.ParseInt(fields[19], 10, 64)
	var since unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &since) != nil {
		return t, false
	}
	return time.Now().Add(time.Duration(ticks)*time.Second/perSecond - time.Duration(since.Nano())), true
}
