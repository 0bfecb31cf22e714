package mediate

import (
	"bytes"
	"strconv"
)

// procProcess finds, in a thread's status file, the process that it belongs to.
func procProcess(status []byte) (pid int, ok bool) {
	text, found := value(status, "\nTgid:\t")
	pid, err := strconv.Atoi(text)
	return pid, found && err == nil
}

// value finds what follows on a key, up to the end of its line.
func value(text []byte, key string) (_ string, ok bool) {
	_, after, found := bytes.Cut(text, []byte(key))
	line, _, whole := bytes.Cut(after, []byte("\n"))
	return string(line), found && whole
}

// procSignals are what a thread's status file says of signals that have come and are not handled yet.
type procSignals struct {
	thread, process uint64 // to the thread alone, to its process
	blocked         uint64
	threads         int
}

// procPending finds them.
func procPending(status []byte) (s procSignals, ok bool) {
	number := func(name string, base int) uint64 {
		text, found := value(status, "\n"+name+":\t")
		n, err := strconv.ParseUint(text, base, 64)
		ok = ok && found && err == nil
		return n
	}
	ok = true
	s.threads = int(number("Threads", 10))
	s.thread, s.process, s.blocked = number("SigPnd", 16), number("ShdPnd", 16), number("SigBlk", 16)
	return s, ok
}

// Interrupt tells whether the thread surely handles one of them before it goes on. One to the process may be another
// thread's; the kernel (complete_signal) prefers the process's first.
func (s procSignals) Interrupt(first bool) bool {
	return s.thread&^s.blocked != 0 || (first || s.threads == 1) && s.process&^s.blocked != 0
}

// procCall finds, in the beginning of a syscall file, the call that the thread waits in. ok is
// false if it runs.
func procCall(text []byte) (nr int, ok bool) {
	number, _, _ := bytes.Cut(text, []byte(" "))
	nr, err := strconv.Atoi(string(number))
	return nr, err == nil && nr >= 0
}

// procFlags finds, in a fdinfo file, the flags of a descriptor.
func procFlags(fdinfo []byte) (flags uint64, ok bool) {
	text, found := value(fdinfo, "flags:\t")
	flags, err := strconv.ParseUint(text, 8, 32)
	return flags, found && err == nil
}
