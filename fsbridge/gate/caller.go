package gate

import (
	"path"
	"strings"
	"time"

	"github.com/codeagent/sandbox/fsbridge/texts"
)

const (
	maxDepth       = 8                      // processes that are told, at most
	maxArgs        = 4 << 10                // bytes that are read of arguments
	maxStuck       = 8                      // readers of arguments at a time
	callerPatience = 250 * time.Millisecond // with the arguments of all
)

// CallingProcess is one of them.
type CallingProcess struct {
	PID         int // the host's number
	Name        string
	Program     string // the file that it executes; empty if that cannot be read
	CommandLine string // empty if that cannot be read
	// Inside is the number by which its own pid namespace knows it, if it is the guest's first process or a child of that;
	// else 0. So it is told of the last one only.
	Inside int
}

// RunningProcesses is a process that runs below another.
type RunningProcesses struct {
	PID         int // the host's number
	Inside      int // its number in the pid namespace of the other
	Parent      int // the parent's number there; 0: the other one itself
	Name        string
	CommandLine string // empty if that cannot be read, or if it has none
	State       string // the kernel's letter: R runs, S waits, T is stopped, Z has ended
	CPU         time.Duration
	Started     time.Time
}

// ProcessReader finds out who asks. Make it with [NewProcessReader].
type ProcessReader struct{ slots chan struct{} }

// NewProcessReader makes a reader.
func NewProcessReader() *ProcessReader { return &ProcessReader{slots: make(chan struct{}, maxStuck)} }

// commandLine is what a person would have typed: args are separated by NUL.
func commandLine(args string) string {
	args = strings.TrimRight(args, "\x00")
	if args == "" {
		return ""
	}
	words := strings.Split(args, "\x00")
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, " \t\n'\"\\$`") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return texts.Line(strings.Join(words, " "))
}

// name is what a process is called, if it says nothing of itself.
func name(comm, program string) string {
	if comm == "" {
		comm = path.Base(program)
	}
	return texts.Name(comm)
}
