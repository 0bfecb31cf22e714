package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/filters"
	"github.com/codeagent/sandbox/messages/lexical"
)

// What Landlock decides about. Listing and executing are left alone: a rule for a directory
// is one for all that lies below it, so a listing could not be kept from hidden names;
// and a file that is hidden is no program.
const (
	handled = filters.LandlockRead | filters.LandlockWrite | filters.LandlockDevice | filters.LandlockNames
	kept    = filters.LandlockRead | filters.LandlockWrite | filters.LandlockNames&^filters.LandlockNodes // in the guest's directory
	device  = filters.LandlockRead | filters.LandlockWrite | filters.LandlockDevice
)

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
	version, err := filters.LandlockVersion()
	if err == nil && version < filters.LandlockScopes {
		err = fmt.Errorf("it needs Landlock of version %d (Linux 6.12 or newer), there is %d", filters.LandlockScopes, version)
	}
	return err
}

// ruleset is a set of Landlock rules. The first error stays.
type ruleset struct {
	*filters.Ruleset
	n      int
	access uint64 // what the set decides about
	err    error
}

// newRuleset makes an empty set. Without sockets nobody uses TCP; with those of this program's network namespace, the supervisor connects.
func newRuleset(access uint64, sockets bool) (*ruleset, error) {
	set, err := filters.NewRuleset(filters.LandlockSettings{Files: access, TCP: !sockets, Remote: sockets, Inside: true})
	if err != nil {
		return nil, err
	}
	return &ruleset{Ruleset: set, access: access}, nil
}

// allow lets path, and what lies below it, be used.
func (r *ruleset) allow(path string, access uint64) {
	if r.err != nil {
		return
	}
	if r.n >= maxRules {
		r.err = fmt.Errorf("more than %d files lie beside hidden ones", maxRules)
		return
	}
	var ruled bool
	if ruled, r.err = r.Allow(path, access); ruled {
		r.n++
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
		if !slices.ContainsFunc(hidden, func(h string) bool { return lexical.Below(h, path) }) {
			r.allow(path, filters.LandlockRead)
		} else if e.IsDir() {
			r.around(path, hidden)
		}
	}
}

// domains are the rules of a guest: the shim's, and those that commands have in addition.
type domains struct{ shim, commands *ruleset }

func (d *domains) close() {
	for _, r := range []*ruleset{d.shim, d.commands} {
		if r != nil {
			_ = r.Close()
		}
	}
}

// newDomains works out the rules for these folders. dir is the guest's directory.
func newDomains(folders []string, dir string, hidden []string, sockets bool) (_ *domains, err error) {
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
	if d.shim, err = newRuleset(handled, sockets); err != nil {
		return nil, err
	}
	d.shim.allowAround(hidden)
	for _, f := range folders {
		d.shim.allow(f, filters.LandlockRead)
	}
	d.shim.allow(dir, kept)
	for _, path := range append(slices.Clone(devices), terminals...) {
		d.shim.allow(path, device)
	}
	// A terminal may be this user's own, on which he answers questions.
	if d.commands, err = newRuleset(filters.LandlockRead|unix.LANDLOCK_ACCESS_FS_WRITE_FILE, sockets); err != nil {
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
		case slices.ContainsFunc(but, func(b string) bool { return lexical.Below(b, path) }):
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
			if lexical.Below(h, f) {
				return fmt.Errorf("%s lies in the working folder, and Landlock cannot hide it there: move it, show it (--show), or work in another folder: %w", h, hypervisor.ErrUnavailable)
			}
		}
		for j, other := range folders {
			if i != j && lexical.Below(other, f) {
				return fmt.Errorf("%s lies in %s: one working folder in another cannot be told apart without mounts: %w", other, f, hypervisor.ErrUnavailable)
			}
		}
	}
	return nil
}
