package remote

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// Inside calls, each on its own goroutine, what serves the listeners that the guest sends, and closes these when the guest has ended. It
// returns then. serve is by agent, and empty for who serves steps. problem is told why there is none.
func Inside(h *control.Host, serve map[string]func(net.Listener), problem func(error)) {
	for {
		select {
		case <-h.Done():
			return
		case l := <-h.Inside():
			if err := listen(h, l.File, serve[l.Agent]); err != nil {
				problem(err)
			}
		}
	}
}

// listen takes a listener over.
func listen(h *control.Host, f *os.File, serve func(net.Listener)) error {
	defer f.Close() // the listener has a duplicate
	if serve == nil {
		return nil
	}
	if err := isListener(f); err != nil {
		return err
	}
	l, err := net.FileListener(f)
	if err != nil {
		return err
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // its name is the guest's, and may mean something else here
	}
	go func() {
		<-h.Done()
		_ = l.Close()
	}()
	go serve(l)
	return nil
}

// isListener returns an error if the guest's descriptor is something else.
func isListener(f *os.File) error {
	rc, err := f.SyscallConn()
	if err != nil {
		return err
	}
	listening, family := 0, 0
	cerr := rc.Control(func(fd uintptr) {
		family, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
		if err == nil {
			listening, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		}
	})
	if err := errors.Join(cerr, err); err != nil {
		return err
	}
	if family != unix.AF_UNIX || listening == 0 {
		return errors.New("what the guest says is a listener is none")
	}
	return nil
}
