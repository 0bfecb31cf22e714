package inherit

import (
	"syscall"
	"unsafe"
)

const pathOnly = 0x200000 // O_PATH

// CheckDescriptor returns which kind of those that are not passed a descriptor is of, or nil.
func CheckDescriptor(fd int, as UseDescriptors) error {
	flags, err := fcntl(fd, syscall.F_GETFL, 0)
	if err != nil {
		return err
	}
	if flags&pathOnly != 0 {
		return PathDescriptor
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return err
	}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		return checkFile(fd, as)
	case syscall.S_IFIFO:
		return nil
	case syscall.S_IFSOCK:
		return checkSocket(fd, as)
	case syscall.S_IFCHR:
		return checkDevice(fd, st.Rdev, as)
	case syscall.S_IFDIR:
		return DirectoryDescriptor
	case syscall.S_IFBLK:
		return DeviceDescriptor
	}
	return UnknownDescriptor
}

// fcntl takes an int, as the kernel's does.
func fcntl(fd, command, argument int) (int, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), uintptr(command), uintptr(argument))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// kernels reports whether a file system is one of the kernel's own: what is in it is regular by its mode, and no file.
func kernels(kind uint32) bool {
	switch kind {
	case 0x9fa0, 0x62656572, 0x62656570, // proc, sysfs, configfs
		0x27e0eb, 0x63677270, // control groups
		0x6e736673, 0x50494446, 0x09041934, // namespaces, processes, what has no name
		0x64626720, 0x74726163, 0x73636673, 0xf97cff8c, 0xcafe4a11, // debugfs, tracefs, securityfs, selinuxfs, BPF
		0x444d4142, 0x5345434d, 0x19800202, // shared buffers, secret memory, message queues
		0x6165676c, 0xde5e81e4, 0x42494e4d: // pstore, EFI's variables, binfmt_misc
		return true
	}
	return false
}

// checkFile admits files that have a name, or had one. A caller's standard input may be any: it was named when it was opened for that.
func checkFile(fd int, as UseDescriptors) error {
	if as != FurtherDescriptors {
		return nil
	}
	var fs syscall.Statfs_t
	if err := syscall.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if kernels(uint32(fs.Type)) {
		return KernelDescriptor
	}
	name, err := DescriptorName(fd)
	if err != nil {
		return err
	}
	const memory = "/memfd:"
	if name == "" || name[0] != '/' || len(name) >= len(memory) && name[:len(memory)] == memory {
		return MemoryDescriptor
	}
	return nil
}

// DescriptorName is the path that the kernel knows of an open file, without links, in our own view; one that was removed is named as it was.
func DescriptorName(fd int) (string, error) {
	var buf [syscall.PathMax]byte
	n, err := syscall.Readlink("/proc/self/fd/"+descriptorsDecimal(fd), buf[:])
	if err != nil {
		return "", err
	}
	const gone = " (deleted)"
	name := string(buf[:n])
	if len(name) > len(gone) && name[len(name)-len(gone):] == gone {
		name = name[:len(name)-len(gone)]
	}
	return name, nil
}

func descriptorsDecimal(n int) string {
	var b [20]byte
	i := len(b)
	for ok := true; ok; ok = n > 0 {
		i--
		b[i], n = byte('0'+n%10), n/10
	}
	return string(b[i:])
}

// checkDevice admits the devices in memory that each jail has: null, zero, full, random, urandom.
func checkDevice(fd int, number uint64, as UseDescriptors) error {
	const memory = 1
	if major, minor := number>>8&0xfff|number>>32&^0xfff, number&0xff|number>>12&0xffffff00; major == memory {
		switch minor {
		case 3, 5, 7, 8, 9:
			return nil
		}
	}
	if isTerminal(fd) {
		return TerminalDescriptor
	}
	return DeviceDescriptor
}

func isTerminal(fd int) bool {
	var t syscall.Termios
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TCGETS, uintptr(unsafe.Pointer(&t)))
	return errno == 0
}

// journal is where what a service of systemd's writes goes: a stream that its other end only reads.
const journal = "/run/systemd/journal/stdout"

// checkSocket admits one of a pair that are connected for ever. What has a name, or is of another family, or can be connected again, is of the
// host's network namespace, and reaches what others listen on there.
func checkSocket(fd int, as UseDescriptors) error {
	kind, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE)
	if err != nil || kind != syscall.SOCK_STREAM && kind != syscall.SOCK_SEQPACKET {
		return SocketDescriptor
	}
	own, ok := socketName(fd, syscall.SYS_GETSOCKNAME)
	if !ok || own != "" {
		return SocketDescriptor
	}
	peer, ok := socketName(fd, syscall.SYS_GETPEERNAME) // one that listens has none
	if !ok || peer != "" && (as != OutputDescriptor || peer != journal) {
		return SocketDescriptor
	}
	return nil
}

// socketName returns the name of a local socket, or of its peer; empty if it has none. Package syscall makes no difference between that and an
// abstract name.
func socketName(fd int, call uintptr) (string, bool) {
	var address syscall.RawSockaddrUnix
	size := uint32(unsafe.Sizeof(address))
	_, _, errno := syscall.Syscall(call, uintptr(fd), uintptr(unsafe.Pointer(&address)), uintptr(unsafe.Pointer(&size)))
	if errno != 0 || address.Family != syscall.AF_UNIX {
		return "", false
	}
	const family = 2
	name := unsafe.Slice((*byte)(unsafe.Pointer(&address.Path[0])), len(address.Path))[:max(size, family)-family]
	if n := len(name); n > 0 && name[n-1] == 0 {
		name = name[:n-1]
	}
	return string(name), true
}
