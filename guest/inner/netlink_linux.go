//go:build amd64 || arm64

package inner

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// deviceIndex is the kernel's number of a network device.
func deviceIndex(device string) (int, error) {
	text, err := os.ReadFile(filepath.Join("/sys/class/net", device, "ifindex"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// routeSocket is one for requests about the devices of this thread's network namespace.
func routeSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	return fd, os.NewSyscallError("netlink", err)
}

// attribute appends an attribute to the body of a request, aligned.
func attribute(body []byte, kind uint16, value []byte) []byte {
	body = binary.NativeEndian.AppendUint16(body, uint16(unix.SizeofRtAttr+len(value)))
	body = binary.NativeEndian.AppendUint16(body, kind)
	body = append(body, value...)
	return append(body, make([]byte, -len(value)&(unix.RTA_ALIGNTO-1))...)
}

// routeRequest sends a request and awaits what the kernel says to it.
func routeRequest(socket int, kind, flags uint16, body []byte) error {
	e := binary.NativeEndian
	m := e.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	m = e.AppendUint16(e.AppendUint16(m, kind), unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags)
	m = e.AppendUint32(e.AppendUint32(m, 1), 0) // sequence, port
	if err := unix.Sendto(socket, append(m, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	answer := make([]byte, os.Getpagesize())
	n, _, err := unix.Recvfrom(socket, answer, 0)
	if err != nil {
		return os.NewSyscallError("recvfrom", err)
	}
	if n < unix.SizeofNlMsghdr+4 || e.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return errors.New("the kernel's answer makes no sense")
	}
	if errno := -int32(e.Uint32(answer[unix.SizeofNlMsghdr:])); errno != 0 {
		return unix.Errno(errno)
	}
	return nil
}
