package jail

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
)

// A descriptor that the mediated bridge grants is on the host's mount of the folder, which is
// writable: unlike one of the guest's view, it could be opened again, by its name in
// /proc, for more than it was granted for, and in a later step. The bridge answers that call,
// but what it lets the kernel perform is resolved once more, and may be such a name by
// then. So the kernel has to refuse it: by Landlock, files are opened for writing in
// places of the guest's own alone. A descriptor that is granted was opened by the supervisor, to which
// this does not apply.
const (
	landlockWrites  = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	landlockHandled = landlockWrites | unix.LANDLOCK_ACCESS_FS_REFER // what is not handled is refused

	landlockABI = 3 // the first that knows truncation: Linux 6.2
)

// landlocks returns why Landlock cannot be used, or nil.
func landlocks() error {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return fmt.Errorf("this kernel has no Landlock (CONFIG_SECURITY_LANDLOCK, lsm=landlock,...): %w: %w", errno, hypervisor.ErrUnavailable)
	}
	if abi < landlockABI {
		return fmt.Errorf("it needs Landlock of version %d (Linux 6.2 or newer), there is %d: %w", landlockABI, abi, hypervisor.ErrUnavailable)
	}
	return nil
}

// hostDevices are patterns of the host's devices that standard input and output may be. All of /dev
// would be too much: a folder, or a file that the guest was started with, can lie in /dev/shm.
var hostDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/console", "/dev/tty[0-9]", "/dev/ttyS[0-9]", "/dev/hvc[0-9]"}

// landlock makes a ruleset, and lets devices of the host be opened: standard output may be a
// terminal. It returns the ruleset's descriptor.
func (w *scriptWriter) landlock() uintptr {
	attr := w.words(landlockHandled)
	rules := w.open("landlock", unix.SYS_LANDLOCK_CREATE_RULESET, attr, 8, 0)
	if st, err := os.Stat("/dev/pts"); err == nil && st.IsDir() {
		w.allowWrites(rules, "/dev/pts", landlockHandled)
	}
	for _, pattern := range hostDevices {
		found, _ := filepath.Glob(pattern)
		for _, path := range found {
			if st, err := os.Lstat(path); err == nil && st.Mode()&os.ModeCharDevice != 0 {
				w.allowWrites(rules, path, landlockWrites)
			}
		}
	}
	return rules
}

// allowWrites lets path, and what is below it, be opened for writing.
func (w *scriptWriter) allowWrites(rules uintptr, path string, access uint64) {
	what := "landlock: " + path
	dir := w.open(what, unix.SYS_OPENAT, cwd, w.text(path), unix.O_PATH|unix.O_CLOEXEC)
	rule := binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint64(nil, access), uint32(dir))
	w.call(what, unix.SYS_LANDLOCK_ADD_RULE, rules, unix.LANDLOCK_RULE_PATH_BENEATH, w.bytes(rule), 0)
	w.close(dir)
}

// ownPlaces are the directories of the view that are the guest's own.
func (p *plan) ownPlaces() []string {
	places := []string{"/proc", "/dev"}
	for _, m := range p.mounts {
		if m.op != opTmpfs && m.op != opOverlay && m.op != opWritable || slices.ContainsFunc(p.mounts, func(f mount) bool { return f.op == opFolder && below(m.path, f.path) }) {
			continue // what lies in a folder is the host's
		}
		places = append(places, m.path)
	}
	return places
}
