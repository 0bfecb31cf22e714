package control

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// TestTerminalPair: both ends read and write at once, a read ends at its deadline, and what was written is read after the writer has gone.
func TestTerminalPair(t *testing.T) {
	outer, inner, err := TerminalPair()
	if err != nil {
		t.Fatal(err)
	}
	defer outer.Close()
	defer inner.Close()
	if err := outer.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if n, err := outer.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if err := outer.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	typed := make(chan string)
	go func() { // while the other end is read, too
		b := make([]byte, 5)
		n, _ := io.ReadFull(inner, b)
		typed <- string(b[:n])
	}()
	if _, err := io.WriteString(outer, "typed"); err != nil {
		t.Fatal(err)
	}
	if got := <-typed; got != "typed" {
		t.Errorf("%q", got)
	}
	if _, err := io.WriteString(inner, "shown"); err != nil {
		t.Fatal(err)
	}
	if err := inner.Close(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if n, err := io.ReadFull(outer, b); err != nil || string(b) != "shown" {
		t.Errorf("%q, %v", b[:n], err)
	}
	if n, err := outer.Read(b); n != 0 || err == nil {
		t.Errorf("after the end: %q, %v", b[:n], err)
	}
}
