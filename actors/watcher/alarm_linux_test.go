package watcher

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestAlarm waits with an alarm for each of several writes, some of which come
// while nobody waits, and then until it is closed.
func TestAlarm(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	a, err := newAlarm(p[0])
	if err != nil {
		t.Fatal(err)
	}
	write := func() {
		if _, err := unix.Write(p[1], []byte{1}); err != nil {
			t.Error(err)
		}
	}
	for i := range 20 {
		if i%2 == 0 {
			write()
		} else {
			go write()
		}
		if err := a.next(); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Read(p[0], make([]byte, 2)); n != 1 {
			t.Fatalf("woken with %d bytes to read (%v)", n, err)
		}
	}
	ended := make(chan error)
	go func() { ended <- a.next() }()
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("woken with nothing to read")
	}
}
