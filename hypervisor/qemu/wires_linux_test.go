package qemu

import (
	"errors"
	"net"
	"os"
	"testing"
)

// TestTakenOrClosed: where QEMU could not be started its connections are closed while somebody takes them. He gets the connection or an error, and never
// what has the descriptor's number by then.
func TestTakenOrClosed(t *testing.T) {
	for range 300 {
		e, theirs, err := inheritedPair()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := theirs.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() {
			err := e.Close()
			f, oerr := os.Open(os.DevNull) // it gets the number
			if oerr == nil {
				oerr = f.Close()
			}
			closed <- errors.Join(err, oerr)
		}()
		c, err := e.conn(t.Context())
		switch {
		case err == nil:
			if n, err := c.Read(make([]byte, 2)); n != 1 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
			err = c.Close()
		case errors.Is(err, net.ErrClosed):
			err = nil
		}
		if err = errors.Join(err, <-closed, theirs.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := e.conn(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("taken twice: %v", err)
		}
	}
}
