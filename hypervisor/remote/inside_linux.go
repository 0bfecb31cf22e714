package remote

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// Inside calls serve with the listener that the guest sends, and closes it when the
// guest has ended. It returns then. problem is told why there is none.
func Inside(h *control.Host, serve func(net.Listener), problem func(error)) {
	select {
	case <-h.Done():
		return
	case f := <-h.Inside():
		defer f.Close() // the listener has a duplicate
		if serve == nil {
			return
		}
		listening, family := 0, 0
		rc, err := f.SyscallConn()
		if err == nil {
			cerr := rc.Control(func(fd uintptr) {
				family, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
				if err == nil {
					listening, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
				}
			})
			err = errors.Join(cerr, err)
		}
		if err == nil && (family != unix.AF_UNIX || listening == 0) {
			err = errors.New("what the guest says is a listener is none")
		}
		var l net.Listener
		if err == nil {
			l, err = net.FileListener(f)
		}
		if err != nil {
			problem(err)
			return
		}
		if u, ok := l.(*net.UnixListener); ok {
			u.SetUnlinkOnClose(false) // its name is the guest's, and may mean something else here
		}
		go func() {
			<-h.Done()
			_ = l.Close()
		}()
		serve(l)
	}
}
