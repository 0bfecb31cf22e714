//go:build amd64 || arm64

package inner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// networkUp sets the network card up as the host says.
func networkUp(n control.MachineNetwork) error {
	card, err := networkCard()
	if err != nil {
		return err
	}
	prepareIPv6(card, n.IPv6 != nil)
	// An ordinary user may ping. Kernels without that have no such file.
	_ = os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 2147483647"), 0)
	if err := configureCard(card, n); err != nil {
		return fmt.Errorf("%s: %w", card, err)
	}
	awaitCarrier(card)
	if err := addTrust(n.Trust); err != nil {
		return err
	}
	return os.WriteFile("/etc/resolv.conf", []byte(n.ResolvConf), 0o644)
}

// networkCard waits for the one interface that is no loopback and has a device.
func networkCard() (string, error) {
	dir, ok := awaitNamed("class/net/*/device", "")
	if !ok {
		return "", errors.New("no network card appeared: has the kernel virtio_net?")
	}
	return filepath.Base(dir), nil
}

// awaitCarrier waits, within limits, until the other end of the cable is seen:
// what is sent before is lost, and a resolver asks again only after long.
func awaitCarrier(card string) {
	_, _ = awaitNamed("class/net/"+card+"/carrier", "1")
}

// configureCard gives the card its address, brings it up, and makes the gateway
// the way to everywhere else.
func configureCard(card string, n control.MachineNetwork) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := bringUp(fd, card, n.Address, n.Bits, n.MTU); err != nil {
		return err
	}
	if err := addDefaultRoute(fd, card, n.Gateway); err != nil || n.IPv6 == nil {
		return err
	}
	return configureIPv6(card, *n.IPv6)
}

// bringUp gives the card its address and brings it up, by a socket of its network
// namespace.
func bringUp(fd int, card string, address [4]byte, bits, mtu int) error {
	var mask [4]byte
	binary.BigEndian.PutUint32(mask[:], ^uint32(0)<<(32-bits))
	for _, step := range []struct {
		what    string
		request uint
		set     func(*unix.Ifreq) error
	}{
		{"MTU", unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(uint32(mtu)); return nil }},
		{"address", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(address[:]) }},
		{"netmask", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(mask[:]) }},
		{"up", unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
	} {
		r, err := unix.NewIfreq(card)
		if err == nil {
			err = step.set(r)
		}
		if err == nil {
			err = unix.IoctlIfreq(fd, step.request, r)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// rtentry is the kernel's struct of that name, on 64-bit machines.
type rtentry struct {
	_                 uint64
	dst, gateway, net [16]byte // struct sockaddr
	flags             uint16
	_                 int16
	_, _              uint64
	metric            int16
	dev               *byte
	_, _              uint64
	_                 uint16
}

func addDefaultRoute(fd int, card string, gateway [4]byte) error {
	dev, err := unix.BytePtrFromString(card)
	if err != nil {
		return err
	}
	sockaddr := func(a [4]byte) (s [16]byte) {
		binary.NativeEndian.PutUint16(s[:], unix.AF_INET)
		copy(s[4:], a[:])
		return s
	}
	r := rtentry{dst: sockaddr([4]byte{}), gateway: sockaddr(gateway), net: sockaddr([4]byte{}), flags: unix.RTF_UP | unix.RTF_GATEWAY, dev: dev}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCADDRT, uintptr(unsafe.Pointer(&r)))
	runtime.KeepAlive(dev)
	if errno != 0 {
		return fmt.Errorf("route: %w", errno)
	}
	return nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
