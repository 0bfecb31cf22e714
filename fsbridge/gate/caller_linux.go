package gate

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/codeagent/sandbox/fsbridge/texts"
)

// Of returns the process of a thread of this host, then its parent, and so on up to the command; nothing if it is gone. What
// this program has started itself is not one of them: that is the guest's own.
func (r *ProcessReader) Of(thread int) []CallingProcess {
	s, ok := readStatus(thread)
	if !ok || thread <= 1 {
		return nil
	}
	if s.group != thread {
		if s, ok = readStatus(s.group); !ok {
			return nil
		}
	}
	var list []CallingProcess
	until := time.Now().Add(callerPatience)
	var above status // the newest in the list
	inside := 0      // of that, or of the one before if that is ours
	for self := os.Getpid(); len(list) < maxDepth; {
		first := s.parent == self // the guest's first process
		if first && len(list) > 0 {
			if len(list) > 1 && above.ours() {
				list = list[:len(list)-1]
			} else {
				inside = above.inside
			}
			list[len(list)-1].Inside = inside
			break
		}
		program, err := os.Readlink(proc(s.group, "exe"))
		if err != nil {
			program = ""
		}
		list = append(list, CallingProcess{
			PID: s.group, Name: name(s.name, program), Program: texts.Name(program), CommandLine: commandLine(r.arguments(s.group, until)),
		})
		if first {
			list[0].Inside = s.inside
			break
		}
		inside, above = above.inside, s
		up, ok := readStatus(s.parent)
		// If the child has another parent now, that one's number may have gone to somebody else.
		if again, still := readStatus(s.group); !ok || !still || again.parent != s.parent || s.parent <= 1 || s.group == self {
			break
		}
		s = up
	}
	return list
}

// ours tells whether a child of the guest's first process is the guest's, too: what starts a command and waits for it.
func (s status) ours() bool { return s.name == "sandbox-guest" }

func proc(pid int, file string) string { return "/proc/" + strconv.Itoa(pid) + "/" + file }

// status is what the kernel says of a process.
type status struct {
	group, parent int
	inside        int   // its number in its own pid namespace
	numbers       []int // its number in each, from ours inwards
	name          string
}

func readStatus(pid int) (s status, ok bool) {
	f, err := os.Open(proc(pid, "status"))
	if err != nil {
		return s, false
	}
	defer f.Close()
	found := 0
	for lines := bufio.NewScanner(f); found < 4 && lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Name":
			s.name = value
		case "Tgid":
			s.group, err = strconv.Atoi(value)
		case "PPid":
			s.parent, err = strconv.Atoi(value)
		case "NStgid":
			for _, f := range strings.Fields(value) {
				n, e := strconv.Atoi(f)
				s.numbers, err = append(s.numbers, n), errors.Join(err, e)
			}
			if len(s.numbers) == 0 {
				return s, false
			}
			s.inside = s.numbers[len(s.numbers)-1]
		default:
			continue
		}
		if found++; err != nil {
			return s, false
		}
	}
	return s, found == 4
}

// arguments reads the arguments of a process, or nothing if that takes too long.
func (r *ProcessReader) arguments(pid int, until time.Time) string {
	select {
	case r.slots <- struct{}{}:
	default:
		return "" // too many are stuck
	}
	read := make(chan string, 1)
	go func() {
		defer func() { <-r.slots }()
		read <- readArguments(pid)
	}()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case args := <-read:
		return args
	case <-timer.C:
		return ""
	}
}

func readArguments(pid int) string {
	f, err := os.Open(proc(pid, "cmdline"))
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, maxArgs)
	n, _ := io.ReadFull(f, b) // a part is as good
	return string(b[:n])
}
