package shim

import (
	"encoding/binary"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// What the kernel executes a program by is found, also where it is a script's script.
func TestInterpreter(t *testing.T) {
	head := func(path string) []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b[:min(len(b), 4096)]
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	if got := interpreter(head(sh)); got == "" {
		t.Errorf("%s has no dynamic loader", sh)
	} else if _, err := os.Stat(got); err != nil {
		t.Errorf("%s: %v", sh, err)
	}
	for text, want := range map[string]string{
		"#!/bin/sh\n": "/bin/sh", "#! /usr/bin/env -S a b\nrest": "/usr/bin/env", "#!x": "x", "#!\n/bin/sh": "", "": "", "\x7fELF": "", "echo\n": "",
	} {
		if got := interpreter([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// The dynamic loader of a program of 32 bits is found, too; with headers that lie, none is.
func TestInterpreter32(t *testing.T) {
	program := func(at, size, count, offset, length int) []byte {
		b := append([]byte("\x7fELF\x01\x01\x01"), make([]byte, 200)...)
		le := binary.LittleEndian
		le.PutUint32(b[28:], uint32(at))
		le.PutUint16(b[42:], uint16(size))
		le.PutUint16(b[44:], uint16(count))
		le.PutUint32(b[52:], 1) // PT_LOAD
		le.PutUint32(b[84:], ptInterp)
		le.PutUint32(b[88:], uint32(offset))
		le.PutUint32(b[100:], uint32(length))
		copy(b[120:], "/lib/ld-linux.so.2\x00")
		return b
	}
	for _, c := range []struct {
		at, size, count, offset, length int
		want                            string
	}{
		{52, 32, 2, 120, 19, "/lib/ld-linux.so.2"}, {52, 32, 1, 120, 19, ""}, {1 << 30, 32, 2, 120, 19, ""}, {52, 31, 2, 120, 19, ""}, {52, 32, 2, 120, 1 << 30, ""}, {52, 32, 2, 1 << 30, 19, ""},
	} {
		if got := interpreter(program(c.at, c.size, c.count, c.offset, c.length)); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// A lookup that is interrupted goes on, unless it shall not.
func TestSearchAgain(t *testing.T) {
	over, calls := false, 0
	s := newSearch("/", nil, func() bool { return over })
	call := func() error {
		if calls++; calls == 3 {
			over = true
		}
		return unix.EINTR
	}
	if err := s.again(call); err != unix.EINTR || calls != 3 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

func FuzzInterpreter(f *testing.F) {
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:4096])
	if b, err = os.ReadFile("/bin/sh"); err == nil {
		f.Add(b[:min(len(b), 4096)])
	}
	f.Add([]byte("#! /bin/sh -e\n"))
	f.Fuzz(func(t *testing.T, head []byte) {
		if got := interpreter(head); len(got) > len(head) {
			t.Errorf("%d bytes out of %d", len(got), len(head))
		}
	})
}
