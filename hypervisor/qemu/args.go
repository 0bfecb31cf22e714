package qemu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/guest/control"
)

// seccompFilter is QEMU's own: it starts no program, changes no user, uses no
// obsolete call.
const seccompFilter = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"

// lessToDo leaves out of the kernel's start what a guest has no use for, a fifth
// of it: self-tests of ciphers, certificates for modules that we bring ourselves,
// keys in files, and security modules without a policy.
const lessToDo = "cryptomgr.notests initcall_blacklist=load_system_certificate_list,init_encrypted lsm=landlock,yama"

// machine describes a command line of QEMU; it decides nothing.
type machine struct {
	os, arch string // of the host, and of both
	accel    string // kvm, hvf, whpx or tcg
	seccomp  bool
	firmware string // the path of another than the board's own; empty: that
	name     string

	memoryMiB int64
	cpus      int

	kernel, initrd string // paths
	extra          string // added to the kernel's command line

	// Ends of connections, as -chardev socket has them: fd=N, path=P or host=H,port=N.
	console, control, monitor string
	shares                    []shareDevice
	// network is the end of the network cable; empty: there is no network card.
	network string
	// cable is the end of what carries the folders where they are no devices.
	cable string

	rootfs, disk drive
}

// drive is a file that is a disk: a descriptor, or a path. The zero value is none.
type drive struct {
	fd   int
	path string
}

// shareDevice is a working folder by virtio-fs.
type shareDevice struct{ tag, end string }

// value quotes a part of an option: QEMU ends it at a comma.
func value(s string) string { return strings.ReplaceAll(s, ",", ",,") }

// board is the machine type.
func (m machine) board() string {
	if m.arch == "arm64" {
		return "virt"
	}
	return "q35"
}

// accelerator is the accelerator with what it needs.
func (m machine) accelerator() string {
	if m.accel == "whpx" {
		return m.accel + ",kernel-irqchip=off"
	}
	return m.accel
}

// without are devices of the board that no guest has a use for, and the firmware
// and the kernel look through: emulated that costs 50 to 100 ms.
func (m machine) without() string {
	if m.accel == "tcg" && m.arch == "amd64" {
		return ",smm=off,sata=off,smbus=off,vmport=off"
	}
	return ""
}

// processor is the CPU model: the host's own where it is not emulated. The kernel
// copies by "rep movsb" where a processor calls that fast, which the emulator does
// byte by byte: without the flags it copies words, and shares are three times as
// fast. Arm's pointer authentication by its own cipher is what an emulated kernel
// does most: by another, which the architecture leaves open, it boots in a third of
// the time.
func (m machine) processor() string {
	switch {
	case m.accel == "tcg" && m.arch == "amd64":
		return "max,-erms,-fsrm"
	case m.accel == "tcg" && m.arch == "arm64":
		return "max,pauth-impdef=on"
	case m.accel == "tcg" || m.accel == "whpx":
		return "max"
	}
	return "host"
}

// memory is the backend's object: vhost-user needs it shared.
func (m machine) memory() string {
	size := strconv.FormatInt(m.memoryMiB, 10) + "M"
	switch m.os {
	case "linux":
		return "memory-backend-memfd,id=mem,size=" + size + ",share=on"
	case "darwin":
		return "memory-backend-shm,id=mem,size=" + size
	}
	return "memory-backend-ram,id=mem,size=" + size
}

// bootLine is the kernel's command line. panic=-1 reboots at once, which
// -no-reboot makes the end.
func (m machine) bootLine() string {
	tty := "ttyS0"
	if m.arch == "arm64" {
		tty = "ttyAMA0"
	}
	// no_timer_check: on a busy host an emulated timer's first ticks come too late
	// for the check, and a kernel that takes its timer for broken hangs.
	line := "console=" + tty + " quiet panic=-1 random.trust_cpu=on no_timer_check " + lessToDo
	if m.accel == "tcg" {
		line += " init_on_alloc=0" // half of what an emulated allocation costs
	}
	if m.extra != "" {
		line += " " + m.extra
	}
	return line
}

// args is the command line, without the program.
func (m machine) args() []string {
	a := []string{
		"-name", value(m.name), "-no-user-config", "-nodefaults", "-display", "none", "-no-reboot",
	}
	if m.seccomp {
		a = append(a, "-sandbox", seccompFilter)
	}
	if m.firmware != "" {
		a = append(a, "-bios", m.firmware)
	}
	a = append(a,
		"-machine", m.board()+m.without()+",accel="+m.accelerator()+",memory-backend=mem",
		"-cpu", m.processor(), "-smp", strconv.Itoa(m.cpus),
		"-m", strconv.FormatInt(m.memoryMiB, 10)+"M", "-object", m.memory(),
		"-kernel", m.kernel, "-initrd", m.initrd, "-append", m.bootLine(),
		"-chardev", "socket,id=console,"+m.console, "-serial", "chardev:console",
		"-chardev", "socket,id=monitor,"+m.monitor, "-mon", "chardev=monitor,mode=control",
		"-device", "virtio-serial-pci,id=serial",
		"-chardev", "socket,id=control,"+m.control, "-device", "virtserialport,bus=serial.0,chardev=control,name="+control.PortName,
	)
	if m.network != "" {
		// It boots from nothing: no boot program is needed.
		a = append(a, "-netdev", "stream,id=net0,"+address(m.network), "-device", "virtio-net-pci,netdev=net0,mac="+control.CardMAC+",romfile=")
	}
	for i, s := range m.shares {
		id := fmt.Sprintf("share%d", i)
		a = append(a, "-chardev", "socket,id="+id+","+s.end,
			"-device", "vhost-user-fs-pci,chardev="+id+",tag="+value(s.tag)+",queue-size=1024")
	}
	if m.cable != "" {
		a = append(a, m.cableDevice()...)
	}
	return slices.Clip(append(a, m.disks()...))
}

// disks are the root file system, read-only, and the persistent disk. QEMU gets
// descriptors for both, as sets of one. The lock is ours; an error of the host's is
// the guest's too.
func (m machine) disks() (a []string) {
	for i, d := range []struct {
		serial string
		drive
		readOnly bool
	}{{control.RootFSSerial, m.rootfs, true}, {control.DiskSerial, m.disk, false}} {
		if d.drive == (drive{}) {
			continue
		}
		mode, device := ",discard=unmap", ""
		if d.readOnly {
			mode = ",read-only=on"
		} else {
			device = ",werror=report,rerror=report"
		}
		file := value(d.path)
		if d.fd != 0 {
			set := strconv.Itoa(i + 1)
			file = "/dev/fdset/" + set
			a = append(a, "-add-fd", fmt.Sprintf("fd=%d,set=%s", d.fd, set))
		}
		a = append(a, "-blockdev", "driver=file,node-name="+d.serial+",filename="+file+",locking=off"+mode,
			"-device", "virtio-blk-pci,drive="+d.serial+",serial="+d.serial+device)
	}
	return a
}

// cableDevice is the cable. A descriptor is taken by every QEMU, an address only by
// those from 7.2 on.
func (m machine) cableDevice() []string {
	end := "socket,id=cable," + m.cable
	if !strings.HasPrefix(m.cable, "fd=") {
		end = "stream,id=cable,server=off," + address(m.cable)
	}
	return []string{"-netdev", end, "-device",
		"virtio-net-pci,netdev=cable,mac=" + control.CableMAC + ",host_mtu=" + strconv.Itoa(control.CableMTU) + ",romfile="}
}

// address is the end of a connection as -netdev stream has it.
func address(end string) string {
	if fd, ok := strings.CutPrefix(end, "fd="); ok {
		return "addr.type=fd,addr.str=" + fd
	}
	if path, ok := strings.CutPrefix(end, "path="); ok {
		return "addr.type=unix,addr.path=" + path
	}
	return "addr.type=inet,addr." + strings.Replace(end, ",", ",addr.", 1)
}

// programName is what QEMU for an architecture is called.
func programName(arch string) string {
	if arch == "arm64" {
		return "qemu-system-aarch64"
	}
	return "qemu-system-x86_64"
}
