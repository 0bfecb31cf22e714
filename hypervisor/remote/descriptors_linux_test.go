package remote

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
)

// TestW6Descriptors: what a caller may pass is a list.
func TestW6Descriptors(t *testing.T) {
	dir := t.TempDir()
	open := func(path string, flags int) int {
		t.Helper()
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	pair := func(domain, kind int) int {
		t.Helper()
		fds, err := unix.Socketpair(domain, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fds[1]) })
		return fds[0]
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	memfd, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC)
	epoll, err2 := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	named := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", named)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, listening, tcp := 0, 0, 0
	if client, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
		err = unix.Connect(client, &unix.SockaddrUnix{Name: named})
	}
	if err == nil {
		listening, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	}
	if err == nil {
		tcp, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		fd   int
		want error
	}{
		"a file":                     {open(filepath.Join(dir, "f"), unix.O_RDWR|unix.O_CREAT), nil},
		"a file in memory":           {memfd, nil},
		"a pipe with a name":         {open(filepath.Join(dir, "fifo"), unix.O_RDWR), nil},
		"a pair":                     {pair(unix.AF_UNIX, unix.SOCK_STREAM), nil},
		"a pair of packets":          {pair(unix.AF_UNIX, unix.SOCK_SEQPACKET), nil},
		"null":                       {open("/dev/null", unix.O_RDWR), nil},
		"a directory":                {open(dir, unix.O_RDONLY), errDirectory},
		"a directory's path":         {open(dir, unix.O_PATH), errPath},
		"a terminal":                 {open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY), errTerminal},
		"a named socket's client":    {client, errSocket},
		"a socket without a peer":    {listening, errSocket},
		"a socket of the network":    {tcp, errSocket},
		"a pair that connects again": {pair(unix.AF_UNIX, unix.SOCK_DGRAM), errSocket},
		"an epoll":                   {epoll, errUnknown},
	} {
		f := os.NewFile(uintptr(c.fd), what)
		err := Admit(hypervisor.Command{Stdout: f}, [3]bool{})
		if c.want == nil && err != nil || c.want != nil && (!errors.Is(err, c.want) || !strings.Contains(err.Error(), "standard output")) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		if err := Admit(hypervisor.Command{Stdin: f}, [3]bool{true}); err != nil {
			t.Errorf("%s, with a terminal instead: %v", what, err)
		}
		_ = f.Close()
	}
}
