//go:build unix

package mcp

import (
	"bytes"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestReadNow: what was written is not lost because the reader got no time
// before its deadline, and what holds the pipe open is not waited for.
func TestReadNow(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	want := bytes.Repeat([]byte("x"), 50_000)
	if _, err := w.Write(want); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	readNow(r, &got)
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes of %d", got.Len(), len(want))
	}
}

// TestStreamHeldOpen: what a process that was left behind holds open does not
// hold up the end.
func TestStreamHeldOpen(t *testing.T) {
	c := newCapture(keptOutput)
	s, err := newStream(c)
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
