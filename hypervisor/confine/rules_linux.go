package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
)

// landlockABI is the first version that keeps signals in: Linux 6.12.
const landlockABI = 6

// What Landlock decides about. Listing and executing are left alone: a rule for a directory
// is one for all that lies below it, so a listing could not be kept from hidden names;
// and a file that is hidden is no program.
const (
	readFile   = unix.LANDLOCK_ACCESS_FS_READ_FILE
	writeFile  = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	ioctlDev   = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	changeDirs = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_REFER
	handled = readFile | writeFile | ioctlDev | changeDirs | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	device  = readFile | writeFile | ioctlDev

	scopes = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
)

// attrBytes is the part of the structure that version 6 knows.
const attrBytes = 24

// maxRules bounds what is allowed one by one.
const maxRules = 1 << 16

// temporary are directories that belong to everybody: they are not for reading, but for
// what lies in them and is allowed by itself.
var temporary = []string{"/tmp", "/var/tmp", "/run", "/var/run", "/dev"}

// devices are what programs need of /dev; terminals are for the shim alone.
var (
	devices   = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"}
	terminals = []string{"/dev/pts"}
)

// abi returns why this kernel's Landlock will not do, or nil.
func abi() error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return fmt.Errorf("this kernel has no Landlock (CONFIG_SECURITY_LANDLOCK, lsm=landlock,...), or the container forbids it: %w", errno)
	}
	if version < landlockABI {
		return fmt.Errorf("it needs Landlock of version %d (Linux 6.12 or newer), there is %d", landlockABI, version)
	}
	return nil
}

// ruleset is a set of Landlock rules. The first error stays.
type ruleset struct {
	fd     int
	n      int
	access uint64 // what the set decides about
	err    error
}

func newRuleset(access, scoped uint64) (*ruleset, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: access, Scoped: scoped}
	if scoped != 0 {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), attrBytes, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("landlock_create_ruleset", errno)
	}
	unix.CloseOnExec(int(fd))
	return &ruleset{fd: int(fd), access: access}, nil
}

// allow lets path, and what lies below it, be used. What is gone meanwhile is left out, and
// so are symlinks: what they lead to counts.
func (r *ruleset) allow(path string, access uint64) {
	if r.err != nil {
		return
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return // nobody reaches it then
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK || st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		return
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= readFile | writeFile | ioctlDev
	}
	if access &= r.access; access == 0 {
		return
	}
	if r.n++; r.n > maxRules {
		r.err = fmt.Errorf("more than %d files lie beside hidden ones", maxRules)
		return
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		r.err = fmt.Errorf("a Landlock rule for %s: %w", path, errno)
	}
}

// allowAround lets everything be read but what is hidden.
func (r *ruleset) allowAround(hidden []string) {
	hidden = slices.Clone(hidden)
	slices.Sort(hidden)
	r.around("/", slices.Compact(hidden))
}

func (r *ruleset) around(dir string, hidden []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // whoever may not list it goes without
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if slices.Contains(hidden, path) {
			continue
		}
		if !slices.ContainsFunc(hidden, func(h string) bool { return strings.HasPrefix(h, path+"/") }) {
			r.allow(path, readFile)
		} else if e.IsDir() {
			r.around(path, hidden)
		}
	}
}

func (r *ruleset) close() { _ = unix.Close(r.fd) }

// domains are the rules of a guest: the shim's, and those that commands have in addition.
type domains struct{ shim, commands *ruleset }

func (d *domains) close() {
	for _, r := range []*ruleset{d.shim, d.commands} {
		if r != nil {
			r.close()
		}
	}
}

// newDomains works out the rules for these folders. own is the guest's directory.
func newDomains(folders []string, own string, hidden []string) (_ *domains, err error) {
	if err := apart(folders, hidden); err != nil {
		return nil, err
	}
	for _, t := range temporary {
		hidden = append(hidden, t)
		if r, err := filepath.EvalSymlinks(t); err == nil {
			hidden = append(hidden, r)
		}
	}
	d := &domains{}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.shim, err = newRuleset(handled, scopes); err != nil {
		return nil, err
	}
	d.shim.allowAround(hidden)
	for _, f := range folders {
		d.shim.allow(f, readFile)
	}
	d.shim.allow(own, readFile|writeFile|changeDirs)
	for _, path := range append(slices.Clone(devices), terminals...) {
		d.shim.allow(path, device)
	}
	// A terminal may be this user's own, on which he answers questions.
	if d.commands, err = newRuleset(readFile|unix.LANDLOCK_ACCESS_FS_WRITE_FILE, scopes); err != nil {
		return nil, err
	}
	d.commands.everything("/", terminals)
	return d, errors.Join(d.shim.err, d.commands.err)
}

// everything allows all but some paths.
func (r *ruleset) everything(dir string, but []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		r.err = errors.Join(r.err, err)
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case slices.Contains(but, path):
		case slices.ContainsFunc(but, func(b string) bool { return strings.HasPrefix(b, path+"/") }):
			r.everything(path, but)
		default:
			r.allow(path, r.access)
		}
	}
}

// apart returns an error where the rules cannot say what is asked for.
func apart(folders, hidden []string) error {
	for i, f := range folders {
		for _, h := range hidden {
			if h == f {
				return fmt.Errorf("%s is hidden, and cannot be a working folder: %w", f, hypervisor.ErrUnavailable)
			}
			if strings.HasPrefix(h, f+"/") {
				return fmt.Errorf("%s lies in the working folder, and Landlock cannot hide it there: move it, show it (--show), or work in another folder: %w", h, hypervisor.ErrUnavailable)
			}
		}
		for j, other := range folders {
			if i != j && strings.HasPrefix(other, f+"/") {
				return fmt.Errorf("%s lies in %s: one working folder in another cannot be told apart without mounts: %w", other, f, hypervisor.ErrUnavailable)
			}
		}
	}
	return nil
}
