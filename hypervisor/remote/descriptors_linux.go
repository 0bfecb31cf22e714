package remote

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
)

// Admit returns an error if a descriptor that a command is to be given as it is would lead it out of its view. It is a list of what may be
// passed: files, pipes, pairs of sockets, the devices that each jail has, and the log of a service. By a directory all of the host could be
// reached, and by a terminal what its user types later. terminal tells for each of the streams whether the command has a pseudo-terminal there instead.
func Admit(c hypervisor.Command, terminal [3]bool) error {
	for i, f := range []*os.File{c.Stdin, c.Stdout, c.Stderr} {
		if f == nil || terminal[i] {
			continue
		}
		conn, err := f.SyscallConn()
		if err == nil {
			cerr := conn.Control(func(fd uintptr) { err = admit(int(fd), i > 0) })
			err = errors.Join(cerr, err)
		}
		if err != nil {
			name := []string{"standard input", "standard output", "standard error"}[i]
			return fmt.Errorf("%s %w: a command gets files, pipes and pairs of sockets of its caller's; redirect it, as with </dev/null", name, err)
		}
	}
	return nil
}

// The kinds that are refused, in words.
var (
	errDirectory = errors.New("is a directory")
	errPath      = errors.New("is a descriptor of a path alone (O_PATH)")
	errDevice    = errors.New("is a device")
	errTerminal  = errors.New("is a terminal")
	errSocket    = errors.New("is a socket that has a name, or is of a network")
	errUnknown   = errors.New("is of a kind that is not passed")
)

// admit returns which kind of those that are not passed a descriptor is of, or nil.
func admit(fd int, output bool) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	if flags&unix.O_PATH != 0 {
		return errPath
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFIFO:
		return nil
	case unix.S_IFSOCK:
		return admitSocket(fd, output)
	case unix.S_IFCHR:
		return admitDevice(fd, st.Rdev)
	case unix.S_IFDIR:
		return errDirectory
	case unix.S_IFBLK:
		return errDevice
	}
	return errUnknown
}

// memory is the major number of the devices in memory, and harmless those of them that each jail has: null, zero, full, random, urandom.
const memory = 1

var harmless = []uint32{3, 5, 7, 8, 9}

func admitDevice(fd int, number uint64) error {
	if unix.Major(number) == memory && slices.Contains(harmless, unix.Minor(number)) {
		return nil
	}
	if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
		return errTerminal
	}
	return errDevice
}

// journal is where what a service of systemd's writes goes: a stream that its other end only reads.
const journal = "/run/systemd/journal/stdout"

// admitSocket admits one of a pair that are connected for ever. What has a name, or is of another family, or can be connected again, is of the
// host's network namespace, and reaches what others listen on there.
func admitSocket(fd int, output bool) error {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_STREAM && kind != unix.SOCK_SEQPACKET {
		return errSocket
	}
	own, err := socketName(fd, unix.SYS_GETSOCKNAME)
	if err != nil || own != "" {
		return errSocket
	}
	peer, err := socketName(fd, unix.SYS_GETPEERNAME) // one that listens has none
	if err != nil || peer != "" && (!output || peer != journal) {
		return errSocket
	}
	return nil
}

// socketName returns the name of a local socket, or of its peer; empty if it has none. package unix makes no difference between that and an
// abstract name.
func socketName(fd int, call uintptr) (string, error) {
	var address unix.RawSockaddrUnix
	size := uint32(unsafe.Sizeof(address))
	if _, _, errno := unix.Syscall(call, uintptr(fd), uintptr(unsafe.Pointer(&address)), uintptr(unsafe.Pointer(&size))); errno != 0 {
		return "", errno
	}
	if address.Family != unix.AF_UNIX {
		return "", unix.EAFNOSUPPORT
	}
	const family = 2
	name := unsafe.Slice((*byte)(unsafe.Pointer(&address.Path[0])), len(address.Path))[:max(size, family)-family]
	return strings.TrimSuffix(string(name), "\x00"), nil
}
