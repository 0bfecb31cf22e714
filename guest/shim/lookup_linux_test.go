package shim

import (
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
