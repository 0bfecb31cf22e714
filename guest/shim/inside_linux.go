package shim

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// insideBacklog is how many programs inside may wait for the host to accept them.
const insideBacklog = 64

// offerInside makes the sockets for programs inside and hands them to the host. Without them
// they have no steps of their own, and no agent, which is no reason not to start.
func (s *Server) offerInside() {
	if s.o.InsideSocket == "" || !s.link.PassesFDs() {
		return
	}
	s.offer("", s.o.InsideSocket)
	for _, name := range s.o.Agents {
		s.offer(name, control.AgentSocket(name))
	}
}

func (s *Server) offer(agent, path string) {
	fd, err := listen(path)
	if err != nil {
		s.report(fmt.Errorf("the socket %s for programs inside: %w", path, err))
		return
	}
	f := os.NewFile(uintptr(fd), "inside")
	_ = s.link.Send(&control.Message{Type: control.TypeInside, FDs: 1, Agent: agent}, f) // the reader notices a broken channel
	_ = f.Close()
}

func listen(path string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err == nil {
		err = unix.Listen(fd, insideBacklog)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
