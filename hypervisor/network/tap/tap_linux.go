package tap

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Path is the device that makes devices.
const Path = "/dev/net/tun"

// device is its number: containers bind something else over a device.
const device = 10<<8 | 200

const (
	// Name is what the device is called inside.
	Name = "eth0"
	// Index is its number there. A namespace may begin with devices of the
	// kernel's own, so that the next number is not known.
	Index = 1000
	// MAC is its ethernet address, locally administered.
	MAC = "\x52\x54\x00\x0a\x02\x0f"
)

// Attach is the argument of the request TUNSETIFF, a struct ifreq, which makes the device.
func Attach() []byte {
	ifr := make([]byte, 40)
	copy(ifr, Name)
	ifr[unix.IFNAMSIZ] = unix.IFF_TAP
	ifr[unix.IFNAMSIZ+1] = (unix.IFF_NO_PI | unix.IFF_VNET_HDR) >> 8 // little endian
	return ifr
}

// Opens returns why [Path] cannot be opened, or nil.
func Opens() error {
	f, err := os.OpenFile(Path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &st)
	if err == nil && (st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != device) {
		err = &os.PathError{Op: "open", Path: Path, Err: unix.ENODEV}
	}
	return errors.Join(err, f.Close())
}

// Advice says what to do where [Path] cannot be opened.
func Advice() string {
	if _, err := os.Stat(Path); err != nil {
		return "there is no " + Path + ", by which commands in the jail get a network: sudo modprobe tun, or pass the device to the container"
	}
	if os.Geteuid() != 0 {
		return "a network in the jail needs to open " + Path + ": sudo chmod 0666 " + Path + " (as distributions set it), or start sandbox with sudo"
	}
	return "the device is there but may not be opened: pass it to the container with --device " + Path
}
