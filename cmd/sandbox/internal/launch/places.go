package launch

import (
	"path/filepath"

	"github.com/codeagent/sandbox/actors"
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
		return p, nil
	}
	p = c.Places
	p.Caches, p.Home = c.Caches == "overlay", c.Home == "overlay"
	p.Store, err = OverlayDir()
	if err != nil && len(p.Overlay) == 0 { // without a home directory there are no caches either
		return hypervisor.Places{Writable: p.Writable}, nil
	}
	return p, err
}
