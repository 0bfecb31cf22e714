package launch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor/filters"
)

// handled is what the rules decide about. Listing, executing and requests to devices are left alone: what cannot be read cannot be executed or asked for something, and names tell little.
const handled = filters.LandlockRead | filters.LandlockWrite | filters.LandlockNames

var (
	// wallsPrograms are what the supervisor still starts, and what those read: notify-send, and this program while it is stopped.
	wallsPrograms = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/gnu", "/run/current-system", "/proc", "/sys"}
	// settings are what programs and Go's libraries read below /etc: of names, users, time, certificates and the loader.
	settings = []string{
		"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld-musl-x86_64.path", "ld-musl-aarch64.path", "localtime", "timezone", "passwd", "group", "nsswitch.conf", "host.conf", "hosts", "resolv.conf", "gai.conf", "services",
		"protocols", "mime.types", "ssl/certs", "ssl/cert.pem", "ssl/ca-bundle.pem", "ssl/openssl.cnf", "ca-certificates", "pki/tls/certs", "pki/tls/cacert.pem", "pki/ca-trust/extracted", "machine-id", "os-release", "fonts",
		"locale.alias", "gitconfig", "codeagent",
	}
	// resolvers keep what /etc/resolv.conf leads to.
	resolvers = []string{"/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf", "/run/connman", "/run/dnsmasq"}
	devices   = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/kvm"}
)

// confined is whether this process is behind rules for files.
type confined struct {
	scout   *asker // nil: there is none
	rules   *filters.Ruleset
	err     error    // the first of a rule
	emptied []string // directories in which directories were missing that a log is in now
}

// before prepares for the rules, before a session starts. removes are the files that the scout may be asked to remove.
func (c *confined) before(cfg *api.Config, removes []string, log *slog.Logger) {
	if !wanted(*cfg) {
		return
	}
	var err error
	if c.scout, err = startScout(removes); err == nil {
		cfg.Readers = c.scout.readers
	} else {
		log.Warn("what a reader of a command's output writes counts as an edit from outside", "component", "control", "err", err)
	}
	for _, d := range cfg.Directories {
		dir := d.UndoDir
		if dir == "" {
			dir, _ = actors.DefaultUndoDir(d.Path) // without one the session does not start
		}
		if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
			c.emptied = append(c.emptied, existing(dir))
		}
	}
}

// existing is the nearest directory above path that is there.
func existing(path string) string {
	for {
		path = filepath.Dir(path)
		if _, err := os.Lstat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
	}
}

// wanted reports whether a session has the rules. A machine's guest speaks virtio-fs or 9P to this process with a kernel that it has chosen. A jail's and a confined workload's supervisor acts in their
// views, mounts, and reads of their processes, all of which Landlock refuses. Who locks the folder takes a mount off in the end.
func wanted(cfg api.Config) bool {
	return cfg.Runtime.Name() == "vm" && (cfg.Barriers != undolog.PolicyLock || os.Geteuid() != 0)
}

// confines tells whether a session has the rules, and the kernel can keep them.
func confines(cfg api.Config) bool {
	version, _ := filters.LandlockVersion()
	return wanted(cfg) && version >= filters.LandlockRenames
}

// up puts this process behind the rules, when a session runs. reads are files of whose directories all stays readable.
func (c *confined) up(ctx context.Context, s *actors.Session, cfg api.Config, reads []string, log *slog.Logger) {
	if !wanted(cfg) {
		return
	}
	version, err := filters.LandlockVersion()
	if version < filters.LandlockRenames {
		log.Debug("the supervisor is not behind Landlock", "component", "control", "version", version, "err", err)
		return
	}
	if c.rules, err = filters.NewRuleset(filters.LandlockSettings{Files: filters.LandlockKnown(version, handled)}); err == nil {
		err = c.fill(ctx, s, cfg)
		for _, path := range reads {
			c.read(filepath.Dir(path)) // a file that takes another's place is another
		}
		err = errors.Join(err, c.err)
		if err == nil {
			err = filters.Confine(c.rules.File())
		}
		err = errors.Join(err, c.rules.Close())
	}
	switch {
	case errors.Is(err, syscall.ENOTSUP): // a test's program
	case err != nil:
		log.Warn("the supervisor is not behind Landlock", "component", "control", "err", err)
	default:
		probe(log)
	}
}

// fill allows what a session's supervisor still opens.
func (c *confined) fill(ctx context.Context, s *actors.Session, cfg api.Config) error {
	files, err := filesOf(ctx, s, cfg)
	if err != nil {
		return err
	}
	c.read(files.read...)
	for _, path := range files.write {
		c.write(path)
	}
	c.read(wallsPrograms...)
	c.read(resolvers...)
	c.etc(cfg)
	for _, path := range append(devices, terminals()...) {
		c.allow(path, filters.LandlockRead|filters.LandlockWrite)
	}
	for _, dir := range c.emptied {
		c.allow(dir, unix.LANDLOCK_ACCESS_FS_REMOVE_DIR)
	}
	return nil
}

// etc allows what is read of /etc. With a network, files there are replaced while the session runs, and are others then: where names are resolved by such a file, all of it can be read.
func (c *confined) etc(cfg api.Config) {
	if st, err := os.Lstat("/etc/resolv.conf"); err == nil && st.Mode().IsRegular() && !cfg.Network.None() {
		c.read("/etc")
		return
	}
	for _, name := range settings {
		c.read(filepath.Join("/etc", name))
	}
}

func (c *confined) read(paths ...string) {
	for _, path := range paths {
		c.allow(path, filters.LandlockRead)
	}
}

func (c *confined) write(path string) { c.allow(path, handled) }

// allow allows what a path leads to.
func (c *confined) allow(path string, rights uint64) {
	if c.err != nil || path == "" {
		return
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return // there is nothing
	}
	_, c.err = c.rules.Allow(real, rights)
}

// terminals are those of this process.
func terminals() (paths []string) {
	for fd := range 3 {
		if path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && strings.HasPrefix(path, "/dev/") {
			paths = append(paths, path)
		}
	}
	return paths
}
