package proctext

import (
	"bytes"
	"strconv"
)

// Process finds, in a thread's status file, the process that it belongs to.
func Process(status []byte) (pid int, ok bool) {
	_, after, found := bytes.Cut(status, []byte("\nTgid:\t"))
	line, _, whole := bytes.Cut(after, []byte("\n"))
	pid, err := strconv.Atoi(string(line))
	return pid, found && whole && err == nil
}

// Call finds, in the beginning of a syscall file, the call that the thread waits in. ok is
// false if it runs.
func Call(text []byte) (nr int, ok bool) {
	number, _, _ := bytes.Cut(text, []byte(" "))
	nr, err := strconv.Atoi(string(number))
	return nr, err == nil && nr >= 0
}

// Flags finds, in a fdinfo file, the flags of a descriptor.
func Flags(fdinfo []byte) (flags uint64, ok bool) {
	_, after, found := bytes.Cut(fdinfo, []byte("flags:\t"))
	line, _, whole := bytes.Cut(after, []byte("\n"))
	flags, err := strconv.ParseUint(string(line), 8, 32)
	return flags, found && whole && err == nil
}
