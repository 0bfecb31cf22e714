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
	"github.com/codeagent/sandbox/hypervisor/inherit"
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
		"a directory":                {open(dir, unix.O_RDONLY), inherit.DirectoryDescriptor},
		"a directory's path":         {open(dir, unix.O_PATH), inherit.PathDescriptor},
		"a terminal":                 {open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY), inherit.TerminalDescriptor},
		"a named socket's client":    {client, inherit.SocketDescriptor},
		"a socket without a peer":    {listening, inherit.SocketDescriptor},
		"a socket of the network":    {tcp, inherit.SocketDescriptor},
		"a pair that connects again": {pair(unix.AF_UNIX, unix.SOCK_DGRAM), inherit.SocketDescriptor},
		"an epoll":                   {epoll, inherit.UnknownDescriptor},
	} {
		f := os.NewFile(uintptr(c.fd), what)
		err := Admit(hypervisor.Command{Stdout: f}, [3]bool{}, nil)
		if c.want == nil && err != nil || c.want != nil && (!errors.Is(err, c.want) || !strings.Contains(err.Error(), "standard output")) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		if err := Admit(hypervisor.Command{Stdin: f}, [3]bool{true}, nil); err != nil {
			t.Errorf("%s, with a terminal instead: %v", what, err)
		}
		_ = f.Close()
	}
}

// TestD5Descriptors: what a command gets beyond the standard three is a shorter list, and what is hidden is not on it.
func TestD5Descriptors(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	err := os.Mkdir(secret, 0o700)
	for _, name := range []string{"key", "gone"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(secret, name), nil, 0o600))
	}
	err = errors.Join(err, os.WriteFile(secret+"2", nil, 0o600), os.Link(filepath.Join(secret, "key"), filepath.Join(dir, "link")))
	gone, err2 := os.Open(filepath.Join(secret, "gone"))
	memory, err3 := unix.MemfdCreate("x", unix.MFD_CLOEXEC)
	if err := errors.Join(err, err2, err3, os.Remove(filepath.Join(secret, "gone"))); err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	for what, c := range map[string]struct {
		path string
		file *os.File
		want string
	}{
		"a file":                {path: secret + "2"},
		"a name of a secret's":  {path: filepath.Join(dir, "link")},
		"null":                  {path: "/dev/null"},
		"a secret":              {path: filepath.Join(secret, "key"), want: "is hidden"},
		"a secret that is gone": {file: gone, want: "is hidden"},
		"a directory":           {path: dir, want: inherit.DirectoryDescriptor.Error()},
		"a file of the kernel":  {path: "/proc/self/status", want: inherit.KernelDescriptor.Error()},
		"a namespace":           {path: "/proc/self/ns/mnt", want: inherit.KernelDescriptor.Error()},
		"memory":                {file: os.NewFile(uintptr(memory), "memory"), want: inherit.MemoryDescriptor.Error()},
	} {
		if c.file == nil {
			if c.file, err = os.Open(c.path); err != nil {
				t.Fatal(err)
			}
			defer c.file.Close()
		}
		err := Admit(hypervisor.Command{Further: []hypervisor.Descriptor{{Number: 9, File: c.file}}}, [3]bool{}, []string{secret})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "descriptor 9")) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
		if err := Admit(hypervisor.Command{Stdin: c.file}, [3]bool{}, []string{secret}); what != "a directory" && err != nil {
			t.Errorf("%s as standard input: %v", what, err)
		}
	}
}
