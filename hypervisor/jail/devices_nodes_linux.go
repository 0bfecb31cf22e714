package jail

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor/jail/places"
	"github.com/codeagent/sandbox/messages/lexical"
)

// deviceNode is a device of the host's.
type deviceNode struct {
	Path   string // absolute, below /dev, free of symlinks
	Driver string // as the kernel calls it; empty if nobody knows
}

// most bounds how many devices a directory may hold.
const most = 256

// own are what each jail has itself, below /dev.
var own = []string{"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "mqueue", "fd", "stdin", "stdout", "stderr", ".sandbox"}

// sets are names of several devices.
var sets = map[string]string{"nvidia": "/dev/nvidia*"}

// grave are drivers whose devices reach past the jail, and how.
var grave = map[string]string{
	"mem": "the machine's memory or its log", "sg": "a disk", "bsg": "a disk", "mtd": "a disk", "nvme": "a disk", "nvme-generic": "a disk", "raw": "a disk", "device-mapper": "disks", "btrfs-control": "disks", "loop-control": "disks",
	"input": "what you type", "hidraw": "what you type", "uinput": "what the desktop takes for your typing", "uhid": "what the desktop takes for your typing", "tpm": "the machine's keys", "snapshot": "the machine's memory", "dax": "the machine's memory", "vcs": "the screen of a console", "/dev/vc/0": "a console",
	"cpu/msr": "the processor's registers", "vfio": "hardware that reads all memory", "vhost-vsock": "virtual machines", "vhost-net": "the host's network", "userfaultfd": "the kernel's copies",
	"autofs": "the host's mounts", "watchdog": "a restart of the machine",
}

// deviceError is why a device is not given. The name is what was asked for.
type deviceError struct {
	Name string
	Err  error
}

func (e *deviceError) Error() string { return "--device " + e.Name + ": " + e.Err.Error() }

// Unwrap returns why.
func (e *deviceError) Unwrap() error { return e.Err }

// findDevice returns the devices that names stand for: paths below /dev, of devices or directories of devices, or names in /dev. may reports
// whether the jail's commands may read or write a device. The error is a *[deviceError].
func findDevice(names []string, may func(path string, st *unix.Stat_t) bool) ([]deviceNode, error) {
	var out []deviceNode
	for _, name := range names {
		found, err := find(name, isTwice(names, name), may)
		if err != nil {
			return nil, &deviceError{name, err}
		}
		for _, d := range found {
			if !slices.Contains(out, d) {
				out = append(out, d)
			}
		}
	}
	return out, nil
}

func isTwice(names []string, name string) bool {
	i := slices.Index(names, name)
	return slices.Contains(names[i+1:], name)
}

func find(name string, twice bool, may func(string, *unix.Stat_t) bool) (out []deviceNode, err error) {
	paths := []string{name}
	switch pattern := sets[name]; {
	case pattern != "":
		if paths, err = filepath.Glob(pattern); err == nil && len(paths) == 0 {
			err = fmt.Errorf("there is no %s", pattern)
		}
	case !strings.Contains(name, "/"):
		paths = []string{filepath.Join("/dev", name)}
	}
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		nodes, err := nodesOf(path)
		if err != nil {
			return nil, err
		}
		for _, node := range nodes {
			d, err := look(node, twice, may)
			if err != nil {
				return nil, err
			}
			out = append(out, d)
		}
	}
	return out, nil
}

// ownDevices reports whether a path lies in what each jail has itself in /dev, and returns the name of that.
func ownDevices(path string) (name string, ok bool) {
	rel, err := filepath.Rel("/dev", path)
	if err != nil {
		return "", false
	}
	name, _, _ = strings.Cut(rel, "/")
	return name, slices.Contains(own, name)
}

// nodesOf are the devices at path, or in it.
func nodesOf(path string) (nodes []string, err error) {
	if !filepath.IsAbs(path) {
		return nil, errors.New("the path is not absolute")
	}
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	path = places.ResolveMount(path)
	if !lexical.Below(path, "/dev") {
		return nil, errors.New("name a device below /dev, or a directory there with devices")
	}
	if first, ok := ownDevices(path); ok {
		return nil, fmt.Errorf("a jail has a /dev/%s of its own", first)
	}
	err = filepath.WalkDir(path, func(at string, e fs.DirEntry, err error) error {
		if err == nil && e.Type()&fs.ModeDevice != 0 {
			nodes = append(nodes, at)
		}
		if len(nodes) > most {
			return fmt.Errorf("there are more than %d devices in it: name those that are needed", most)
		}
		return err
	})
	if err == nil && len(nodes) == 0 {
		err = errors.New("it is no device, and no directory with devices")
	}
	return nodes, err
}

// look checks a device.
func look(path string, twice bool, may func(string, *unix.Stat_t) bool) (deviceNode, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return deviceNode{}, fmt.Errorf("%s: %w", path, err)
	}
	return judge(path, &st, twice, may)
}

func judge(path string, st *unix.Stat_t, twice bool, may func(string, *unix.Stat_t) bool) (deviceNode, error) {
	d := deviceNode{Path: path}
	reached := "a disk"
	if st.Mode&unix.S_IFMT == unix.S_IFCHR {
		major, minor := unix.Major(st.Rdev), unix.Minor(st.Rdev)
		d.Driver = driver(major, minor)
		reached = grave[d.Driver]
		if major == terminals || d.Driver == "pts" || d.Driver == "ptm" {
			return d, fmt.Errorf("%s is a terminal, and who has it types for you", path)
		}
	}
	if reached != "" && !twice {
		return d, fmt.Errorf("%s reaches %s, past the jail and without an undo; if that is meant, name it twice: --device %[1]s --device %[1]s", path, reached)
	}
	if !may(path, st) {
		return d, fmt.Errorf("%s: commands may neither read nor write it (mode %04o, user %d, group %d): its mode or its group has to let them", path, st.Mode&0o777, st.Uid, st.Gid)
	}
	return d, nil
}

const (
	miscMajor, terminalMajor, terminals = 10, 4, 5
	firstSerial                         = 64 // minor number of the first serial line among the consoles
)

// driver is what the kernel calls the driver of a character device, or empty.
func driver(major, minor uint32) string {
	file, number := "/proc/devices", major
	if major == miscMajor {
		file, number = "/proc/misc", minor
	}
	if major == terminalMajor && minor >= firstSerial {
		return "ttyS"
	}
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "Block devices") {
		if fields := strings.Fields(lines.Text()); len(fields) == 2 && fields[0] == strconv.FormatUint(uint64(number), 10) {
			return fields[1]
		}
	}
	return ""
}
