package launch

import (
	"path/filepath"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/exit"
	"github.com/codeagent/sandbox/hypervisor"
)

// OverlayDir is where the overlays of a jail's places are kept.
func OverlayDir() (string, error) {
	dir, err := actors.StateDir()
	return filepath.Join(dir, "overlays"), err
}

// places are what can be written in a jail beside the working folders.
func (l *Launcher) places() (p hypervisor.Places, err error) {
	c := l.Conf.Places
	if l.Conf.Isolation == "vm" || l.Conf.Isolation == "none" {
		if len(c.Overlay)+len(c.RW) > 0 {
			return p, exit.Usagef("--overlay and --rw: only the jail has places of the host; leave out --isolation %s", l.Conf.Isolation)
		}
		return p, nil
	}
	p = hypervisor.Places{Caches: c.Caches == "overlay", Home: c.Home == "overlay", Overlay: c.Overlay, Writable: c.RW}
	p.Store, err = OverlayDir()
	if err != nil && len(p.Overlay) == 0 { // without a home directory there are no caches either
		return hypervisor.Places{Writable: p.Writable}, nil
	}
	return p, err
}
