package control

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// said gets the lines of a log.
type said chan string

func (s said) Write(p []byte) (int, error) {
	s <- string(p)
	return len(p), nil
}

// A session that has no descriptor left for a connection says so, and serves it when it has one again.
func TestNoDescriptorLeft(t *testing.T) {
	lines := make(said, 10)
	path := filepath.Join(t.TempDir(), "s.sock")
	s, err := Listen(path, Options{Handler: echo, Logger: slog.New(slog.NewTextHandler(lines, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}
	defer restore()
	// What another test has left may take a descriptor, or give one back, at any moment: then it is tried again.
	var c *Client
	answer := make(chan error, 1)
	var got int
	for line := ""; line == ""; {
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		next := null.Fd() // the lowest number that is free, once more
		if err := null.Close(); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(next) + 1, Max: before.Max}); err != nil {
			t.Fatal(err)
		}
		c, err = Dial(t.Context(), path) // has the last one
		if errors.Is(err, syscall.EMFILE) {
			restore()
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func(c *Client) { answer <- c.Call(t.Context(), "echo", 3, &got, nil) }(c)
		select {
		case line = <-lines:
			if !strings.Contains(line, "no connection can be taken at the moment") || !strings.Contains(line, "too many open files") {
				t.Errorf("%s", line)
			}
		case err := <-answer: // there was one more
			if err != nil {
				t.Fatal(err)
			}
			restore()
		}
	}
	restore()
	if err := <-answer; err != nil || got != 3 {
		t.Errorf("%d, %v", got, err)
	}
}
