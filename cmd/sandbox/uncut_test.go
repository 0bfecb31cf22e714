//go:build unix

package main

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
)

// TestU2SignalsDoNotCut sends signals while something runs that must not be cut, and has it end by itself.
func TestU2SignalsDoNotCut(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		r, w := io.Pipe()
		want := errors.New("its own end")
		err := uncut(w, "the undo", func() error {
			if err := syscall.Kill(syscall.Getpid(), sig); err != nil {
				return err
			}
			line, err := bufio.NewReader(r).ReadString('\n') // until it was heard
			if err != nil || !strings.Contains(line, "the undo goes on to its end") {
				t.Errorf("%v: %q, %v", sig, line, err)
			}
			return want
		})
		if !errors.Is(err, want) {
			t.Errorf("%v: %v", sig, err)
		}
	}
}
