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
	p = hypervisor.Places{Caches: c.Caches == "overlay", Home: c.Home == "overlay", Overlay: c.Overlay, Writable: c.RW}
	p.Store, err = OverlayDir()
	if err != nil && len(p.Overlay) == 0 { // without a home directory there are no caches either
		return hypervisor.Places{Writable: p.Writable}, nil
	}
	return p, err
}

// resources are what everything in a jail may take together.
func (l *Launcher) resources() hypervisor.Limits {
	c := l.Conf.Limits
	return hypervisor.Limits{
		PIDs: max(c.PIDs, 0), Memory: max(int64(c.Memory), 0), MemoryHigh: max(int64(c.MemoryHigh), 0), MilliCPUs: c.MilliCPUs(),
		IO: max(int64(c.IO), 0), FileBytes: max(int64(c.File), 0), TmpBytes: max(int64(c.Tmp), 0),
	}
}
