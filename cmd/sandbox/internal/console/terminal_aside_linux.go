//go:build linux && !portable

package console

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// readable is a terminal if it was opened for reading, too, and else nil.
func readable(tty *os.File) *os.File {
	if flags, err := unix.FcntlInt(tty.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_ACCMODE != unix.O_RDWR {
		return nil
	}
	return tty
}

// asked reports whether a line that was typed is for a command whose stdin is no terminal. What reads a terminal that is not its stdin
// cannot be seen, so it is if the command has written a question, and no other program of the pipe has the terminal as its stdin.
// Else what is typed ahead is left to the shell, whose it is. Looking for other programs is not needed before there is a line.
func (t *Relay) asked() bool {
	if !t.question {
		return false
	}
	waiting, err := unix.IoctlGetInt(int(t.in.Fd()), unix.TIOCINQ)
	return err == nil && waiting > 0 && !othersRead()
}

// isQuestion reports whether a text ends as programs end a question: "Password: ", "Continue (yes/no)? ", "[y/N] ".
func isQuestion(text []byte) bool {
	n := len(text)
	return n > 1 && text[n-1] == ' ' && bytes.IndexByte([]byte(":?])>"), text[n-2]) >= 0
}

// othersRead reports whether another process of our group has a terminal as its stdin. Those that we come from do not count: they
// wait for us.
func othersRead() bool {
	self := statOf(os.Getpid())
	waiting := map[int]bool{os.Getpid(): true}
	for pid := self.parent; pid > 1 && !waiting[pid]; pid = statOf(pid).parent {
		waiting[pid] = true
	}
	names, err := os.ReadDir("/proc")
	if err != nil || self.group == 0 {
		return true
	}
	for _, e := range names {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || waiting[pid] || statOf(pid).group != self.group {
			continue
		}
		to, err := os.Readlink("/proc/" + e.Name() + "/fd/0")
		if errors.Is(err, fs.ErrPermission) && nameOf(e.Name()) == nameOf("self") {
			return true // another session's supervisor, which shows nobody what it has open
		}
		if err == nil && (strings.HasPrefix(to, "/dev/pts/") || strings.HasPrefix(to, "/dev/tty") || to == "/dev/console") {
			return true
		}
	}
	return false
}

// nameOf is what a process is called: its program's name, unless it has chosen another.
func nameOf(pid string) string {
	name, err := os.ReadFile("/proc/" + pid + "/comm")
	if err != nil {
		return ""
	}
	return string(name)
}

// stat is what /proc says of a process; zero if it is gone.
type stat struct{ parent, group int }

func statOf(pid int) (s stat) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s
	}
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(f) < 3 { // the state comes first
		return s
	}
	s.parent, _ = strconv.Atoi(f[1])
	s.group, _ = strconv.Atoi(f[2])
	return s
}
