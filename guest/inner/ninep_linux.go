//go:build amd64 || arm64

package inner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// messageBytes is the largest 9P message we ask for; the kernel's limit for a
// descriptor is the same.
const messageBytes = 1 << 20

// mount9P mounts a folder that is behind a connected socket, which it takes over.
// One identity asks for all users (access=any): who may do what is decided here,
// by the modes. cache=mmap is the least that allows shared mappings: nothing but
// mapped pages is kept.
func mount9P(s control.MachineShare, stream int, flags uintptr) error {
	defer unix.Close(stream) // the mount has a reference of its own
	data := fmt.Sprintf("trans=fd,rfdno=%d,wfdno=%d,version=9p2000.L,msize=%d,cache=mmap,access=any", stream, stream, messageBytes)
	err := unix.Mount(s.Tag, string(s.Path), "9p", flags, data)
	if err == unix.ENODEV {
		return fmt.Errorf("mounting %s: the guest's kernel has no 9P; 'sandbox guest build --generic' makes an image with one that has, and a release has such images ('sandbox guest fetch'): %w", s.Path, err)
	}
	if err != nil {
		return fmt.Errorf("mounting %s (9P %s): %w", s.Path, s.Tag, err)
	}
	return nil
}

// plugIn connects the shares that are behind the cable, and returns each one's
// socket. The device goes into a network namespace of its own, in which nobody
// runs: a command can neither reach the host's end nor see that there is one. The
// sockets keep the namespace.
func plugIn(shares []control.MachineShare) ([]int, error) {
	streams := make([]int, len(shares))
	if !slices.ContainsFunc(shares, func(s control.MachineShare) bool { return s.NineP }) {
		return streams, nil
	}
	device, err := cableDevice()
	if err != nil {
		return nil, err
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := moveHere(device)
		for i, s := range shares {
			if err == nil && s.NineP {
				streams[i], err = dialCable(control.CablePort + i)
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		return nil, fmt.Errorf("the cable of the working folders: %w", err)
	}
	return streams, nil
}

// cableDevice waits for the network device and returns its name.
func cableDevice() (string, error) {
	dir, ok := awaitNamed("class/net/*/address", control.CableMAC)
	if !ok {
		return "", errors.New("its network device did not appear")
	}
	return filepath.Base(dir), nil
}

// moveHere gives this thread a network namespace and the device, with its address,
// to that.
func moveHere(device string) error {
	index, err := deviceIndex(device)
	if err != nil {
		return err
	}
	outside, err := routeSocket()
	if err != nil {
		return err
	}
	defer unix.Close(outside)
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := moveLink(outside, index, unix.Gettid()); err != nil {
		return fmt.Errorf("moving %s: %w", device, err)
	}
	guest, err := netip.ParsePrefix(control.CableGuest)
	if err != nil {
		return err
	}
	inside, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(inside)
	if err := bringUp(inside, device, guest.Addr().As4(), guest.Bits(), control.CableMTU); err != nil {
		return fmt.Errorf("setting up %s: %w", device, err)
	}
	return nil
}

// moveLink moves a device into the namespace of a thread (RTM_NEWLINK with
// IFLA_NET_NS_PID), by a socket of the one where it is.
func moveLink(socket, index, tid int) error {
	e := binary.NativeEndian
	m := []byte{unix.AF_UNSPEC, 0, 0, 0}        // struct ifinfomsg: family, type
	m = e.AppendUint32(m, uint32(index))        //
	m = e.AppendUint32(e.AppendUint32(m, 0), 0) // flags, change
	return routeRequest(socket, unix.RTM_NEWLINK, 0, attribute(m, unix.IFLA_NET_NS_PID, e.AppendUint32(nil, uint32(tid))))
}

// dialCable connects to a port of the host's end.
func dialCable(port int) (fd int, err error) {
	host, err := netip.ParsePrefix(control.CableHost)
	if err != nil {
		return -1, err
	}
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	// Requests and answers go at once, however small.
	err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: host.Addr().As4()})
	}
	if err != nil {
		return -1, errors.Join(fmt.Errorf("connecting to port %d: %w", port, err), unix.Close(fd))
	}
	return fd, nil
}
