package qemu

import (
	"net"
	"os"
	"strings"
	"testing"
)

// TestFromProcess: both sides are this process's.
func TestFromProcess(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	theirs, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ours, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if err := fromProcess(ours, os.Getpid()); err != nil {
		t.Errorf("our own process: %v", err)
	}
	if err := fromProcess(ours, os.Getpid()+4); err == nil || !strings.Contains(err.Error(), "process") {
		t.Errorf("taken for another process: %v", err)
	}
	_ = theirs.Close()
}
