//go:build unix

package mcp

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestStreamWithoutEnd: a process that was left behind and writes without end
// does not hold up the end, and what was written before it is there.
func TestStreamWithoutEnd(t *testing.T) {
	c := newCapture(keptOutput)
	s, err := newStreamInto(c)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(s.w.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	left := os.NewFile(uintptr(fd), "left")
	if _, err := left.WriteString("said before the end"); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for b := make([]byte, 4096); ; {
			if _, err := left.Write(b); err != nil {
				return // EPIPE
			}
		}
	}()
	if err := s.finish(); err != nil {
		t.Fatal(err)
	}
	<-gone
	if err := left.Close(); err != nil {
		t.Error(err)
	}
	if got, _, _ := c.text(); !strings.HasPrefix(got, "said before the end") {
		t.Errorf("%.100q", got)
	}
}

// TestStreamWhole: all that was written is there when finish returns, and
// nothing is passed on afterwards.
func TestStreamWhole(t *testing.T) {
	for _, size := range []int{0, 1, 512, 513, 50_000, 3 << 20} {
		c := newCapture(8 << 20)
		s, err := newStreamInto(c)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Repeat("x", size)
		if _, err := s.w.WriteString(want); err != nil {
			t.Fatal(err)
		}
		if err := s.finish(); err != nil {
			t.Fatal(err)
		}
		if got, n, cut := c.text(); got != want || n != int64(size) || cut {
			t.Errorf("%d bytes of %d, %v", n, size, cut)
		}
	}
}

// TestStreamHeldOpen: what a process that was left behind holds open does not
// hold up the end.
func TestStreamHeldOpen(t *testing.T) {
	c := newCapture(keptOutput)
	s, err := newStreamInto(c)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(s.w.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	left := os.NewFile(uintptr(fd), "left")
	defer left.Close()
	if _, err := left.WriteString("said before the end"); err != nil {
		t.Fatal(err)
	}
	if err := s.finish(); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := c.text(); got != "said before the end" {
		t.Errorf("%q", got)
	}
}

func newStreamInto(to ...io.Writer) (*stream, error) {
	s, err := newStream()
	if err == nil {
		s.into(to...)
	}
	return s, err
}
