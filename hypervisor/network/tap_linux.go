package network

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// TapPath is the device that makes devices.
const TapPath = "/dev/net/tun"

// device is its number: containers bind something else over a device.
const device = 10<<8 | 200

const (
	// TapName is what the device is called inside.
	TapName = "eth0"
	// TapIndex is its number there. A namespace may begin with devices of the
	// kernel's own, so that the next number is not known.
	TapIndex = 1000
	// TapMAC is its ethernet address, locally administered.
	TapMAC = "\x52\x54\x00\x0a\x02\x0f"
)

// AttachTap is the argument of the request TUNSETIFF, a struct ifreq, which makes the device.
func AttachTap() []byte {
	ifr := make([]byte, 40)
	copy(ifr, TapName)
	ifr[unix.IFNAMSIZ] = unix.IFF_TAP
	ifr[unix.IFNAMSIZ+1] = (unix.IFF_NO_PI | unix.IFF_VNET_HDR) >> 8 // little endian
	return ifr
}

// TapOpens returns why [TapPath] cannot be opened, or nil.
func TapOpens() error {
	f, err := os.OpenFile(TapPath, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &st)
	if err == nil && (st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != device) {
		err = &os.PathError{Op: "open", Path: TapPath, Err: unix.ENODEV}
	}
	return errors.Join(err, f.Close())
}

// TapAdvice says what to do where [TapPath] cannot be opened.
func TapAdvice() string {
	if _, err := os.Stat(TapPath); err != nil {
		return "there is no " + TapPath + ", by which commands in the jail get a network: sudo modprobe tun, or pass the device to the container; in a pod, --network pod takes the pod's"
	}
	if os.Geteuid() != 0 {
		return "a network in the jail needs to open " + TapPath + ": sudo chmod 0666 " + TapPath + " (as distributions set it), or start sandbox with sudo"
	}
	return "the device is there but may not be opened: pass it to the container with --device " + TapPath
}
