package jail

import (
	"errors"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
)

// What a guest without namespaces (package confine) has in common with a jail.

// KernelMediates returns why this kernel cannot mediate, or nil. It tries that, which
// takes milliseconds.
func KernelMediates() error {
	return errors.Join(landlocks(kernelLandlock()), kernelMediates())
}

// Shared are limits of everything inside that leave the user's processes outside something.
func Shared() []rlimitOf { return limitsShared() }

// Hidden returns what must not be visible to a guest with these folders: well-known
// secrets and what the configuration names, free of symlinks, also at the other paths at
// which it is mounted. Only what exists is in the list, and a directory comes before what
// is in it. notes is what the user should know of it.
func Hidden(cfg hypervisor.Config) (hidden []hypervisor.Secret, notes []string, err error) {
	u, err := chooseAccount(-1, -1)
	if err != nil {
		return nil, nil, err
	}
	table, err := readMounts()
	if err != nil {
		return nil, nil, err
	}
	p := &planner{cfg: cfg, user: u, mounts: table}
	if p.shares, err = folders(cfg); err != nil {
		return nil, nil, err
	}
	for _, s := range cfg.Show {
		p.show = append(p.show, places.ResolveMount(s))
	}
	hidden = p.hideList()
	return hidden, p.notes, nil
}

// Folders returns the working folders, free of symlinks.
func Folders(cfg hypervisor.Config) ([]string, error) { return folders(cfg) }

// Doubtful tells, without trying, whether a jail may be refused here: a container's filter,
// or a setting. It takes microseconds.
func Doubtful() bool { return hostDoubtful() }
