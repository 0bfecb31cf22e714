package posix

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	ntdll                        = windows.NewLazySystemDLL("ntdll.dll")
	ntQueryVolumeInformationFile = ntdll.NewProc("NtQueryVolumeInformationFile")
	ntQueryDirectoryFile         = ntdll.NewProc("NtQueryDirectoryFile")
	ntQueryObject                = ntdll.NewProc("NtQueryObject")
)

// volumeQuery asks for what is known of the volume of h.
func volumeQuery(h windows.Handle, class uint32, b []byte) error {
	var status windows.IO_STATUS_BLOCK
	r, _, _ := ntQueryVolumeInformationFile.Call(uintptr(h), uintptr(unsafe.Pointer(&status)), uintptr(unsafe.Pointer(&b[0])),
		uintptr(len(b)), uintptr(class))
	return failure(r)
}

// queryDirectory reads some entries of a directory, or those with a name. restart begins at its start.
func queryDirectory(h windows.Handle, class uint32, b []byte, name string, restart bool) (int, error) {
	var status windows.IO_STATUS_BLOCK
	again := uintptr(0)
	if restart {
		again = 1
	}
	only := unsafe.Pointer(nil)
	if name != "" {
		n, err := ntName(name)
		if err != nil {
			return 0, err
		}
		only = unsafe.Pointer(n)
	}
	r, _, _ := ntQueryDirectoryFile.Call(uintptr(h), 0, 0, 0, uintptr(unsafe.Pointer(&status)), uintptr(unsafe.Pointer(&b[0])),
		uintptr(len(b)), uintptr(class), 0, uintptr(only), again)
	return int(min(status.Information, uintptr(len(b)))), failure(r)
}

// objectName returns the name of h among the objects of the kernel.
func objectName(h windows.Handle) (string, error) {
	const nameInformation = 1
	var b [1<<16 + 64]byte
	r, _, _ := ntQueryObject.Call(uintptr(h), nameInformation, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0)
	if err := failure(r); err != nil {
		return "", err
	}
	name := (*windows.NTUnicodeString)(unsafe.Pointer(&b[0])) // it is in b, too
	return windows.UTF16ToString(name.Slice()), nil
}

// failure is nil for a status that is none. That there would be more is none, either.
func failure(status uintptr) error {
	s := windows.NTStatus(uint32(status))
	if s == windows.STATUS_SUCCESS || s == windows.STATUS_BUFFER_OVERFLOW {
		return nil
	}
	return s
}

// ntfs is the file system's name, as Windows tells it.
const ntfs = "NTFS"

// Numbers of file systems: what Linux's drivers for them have, and for ReFS its name.
const (
	magicNTFS  = 0x5346544e
	magicReFS  = 0x53466552
	magicFAT   = 0x4d44
	magicExFAT = 0x2011bab0
)

// readOnlyVolume is FILE_READ_ONLY_VOLUME.
const readOnlyVolume = 0x80000

// fileSystem returns name and attributes of a file system.
func fileSystem(h windows.Handle) (name string, attributes, longest uint32, err error) {
	var b [12 + 128]byte
	if err := volumeQuery(h, fileSystemAttributes, b[:]); err != nil {
		return "", 0, 0, err
	}
	le := binary.LittleEndian
	name = units(b[12:min(12+int(le.Uint32(b[8:])), len(b))])
	return name, le.Uint32(b[:]), le.Uint32(b[4:]), nil
}

// system is what is known of the file system of a volume.
type system struct {
	name   string
	remote bool // another machine has it: it is a share
}

// system asks a volume once: to make another file system there gives it another number. Without a number it is asked each time.
func (p *process) system(h windows.Handle, volume uint64) system {
	if s, known := p.systems.Load(volume); known {
		return s.(system)
	}
	var s system
	name, _, _, err := fileSystem(h)
	if err == nil {
		s = system{name, remote(h)}
	}
	if err == nil && volume != 0 {
		p.systems.Store(volume, s)
	}
	return s
}

func remote(h windows.Handle) bool {
	const remoteDevice = 0x10 // FILE_REMOTE_DEVICE
	var b [8]byte
	return volumeQuery(h, fileSystemDevice, b[:]) == nil && binary.LittleEndian.Uint32(b[4:])&remoteDevice != 0
}

// magic is the number of a file system. That of a share is of the protocol: its times are of another machine's clock, whatever lies behind it.
func (s system) magic() int64 {
	switch {
	case s.remote:
		return SMB2_SUPER_MAGIC
	case s.name == ntfs:
		return magicNTFS
	case s.name == "ReFS":
		return magicReFS
	case s.name == "FAT", s.name == "FAT32":
		return magicFAT
	case s.name == "exFAT":
		return magicExFAT
	}
	return 0
}

// Fstatfs describes the file system of fd. Nobody counts its files.
func Fstatfs(fd int, s *Statfs_t) error {
	return here.withFile(fd, func(u using) error {
		name, attributes, longest, err := fileSystem(u.handle)
		if err != nil {
			return err
		}
		var b [32]byte
		if err := volumeQuery(u.handle, fileSystemFullSize, b[:]); err != nil {
			return err
		}
		le := binary.LittleEndian
		unit := int64(le.Uint32(b[24:])) * int64(le.Uint32(b[28:]))
		*s = Statfs_t{Bsize: unit, Frsize: unit, Namelen: int64(longest),
			Blocks: le.Uint64(b[:]), Bavail: le.Uint64(b[8:]), Bfree: le.Uint64(b[16:]),
			Type: system{name, remote(u.handle)}.magic(), Fsid: Fsid{[2]int32{int32(u.volume), int32(u.volume >> 32)}}}
		if attributes&readOnlyVolume != 0 {
			s.Flags |= ST_RDONLY
		}
		return nil
	})
}

// VolumeID returns the own id of the file system of fd, which stays when it is mounted again: name and serial number.
func VolumeID(fd int) (id string) {
	_ = here.withFile(fd, func(u using) error {
		name, _, _, err := fileSystem(u.handle)
		if err == nil && u.volume != 0 {
			id = fmt.Sprintf("%s:%016x", name, u.volume)
		}
		return err
	})
	return id
}

// HandleID returns what no later inode of the same number has; empty where there is nothing that lasts. The id of NTFS counts how often its
// record was used, and that of ReFS is never used again. (The time of birth is not in it: anybody can change that.)
func HandleID(fd int) (id string) {
	_ = here.withFile(fd, func(u using) error {
		if s := here.system(u.handle, u.volume); s.name == ntfs || s.name == "ReFS" {
			id = s.name + ":" + hex.EncodeToString(u.id[:])
		}
		return nil
	})
	return id
}

// MountEpoch names a time in which no device number below the mount of fd changes. The number of a volume never does, but nobody promises
// that two volumes have two.
func MountEpoch(fd int) string { return "" }

// MountsBelow lists the directories below an absolute path at which something is mounted: a junction leads to it, and is not followed.
func MountsBelow(path string) ([]string, error) { return nil, nil }

// FineTimes tells whether two changes of a file one after the other have two times of change on the file system of fd. NTFS takes them from
// a clock that may tick 64 times in a second, and writes them down later.
func FineTimes(fd int) bool { return false }

// Apart tells whether nothing can be renamed between two directories: they are on two volumes. It changes nothing.
func Apart(a, b int) bool {
	var volumes [2]uint64
	for i, fd := range [2]int{a, b} {
		err := here.withFile(fd, func(u using) error { volumes[i] = u.volume; return nil })
		if err != nil {
			return false
		}
	}
	return volumes[0] != volumes[1]
}
