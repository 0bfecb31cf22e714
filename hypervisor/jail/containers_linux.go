package jail

import (
	"errors"
	"os/exec"
	"path/filepath"
)

const cgroupDir = "/sys/fs/cgroup"

// addContainers adds what engines for containers need beside the filter: their configuration,
// and control groups of one kind, since crun refuses a host that has both.
func (p *planner) addContainers() {
	if !p.cfg.Containers {
		return
	}
	if isDir(cgroupDir) {
		p.add(mount{op: opCgroup, path: cgroupDir})
	}
	store, kept := p.containerStore()
	if !kept {
		p.notes = append(p.notes, "images and containers lie in "+store+", and go with the session")
	}
	find := func(name string) string {
		program, err := exec.LookPath(name)
		if err != nil {
			return ""
		}
		return program
	}
	for _, f := range engineFiles(p.user.UID, store, !p.user.ByRoot, find) {
		m := mount{op: opFile, path: f.Path, content: f.Text, make: true}
		if f.Program {
			m.mode = 0o555
		}
		p.add(m)
	}
}

// containerStore is where images lie: in the cache of the user if that can be written and is
// kept. It is not the place that engines take outside: they would find the host's database there, with
// settings that do not fit.
func (p *planner) containerStore() (dir string, kept bool) {
	dir = filepath.Join(p.user.Home, ".cache", "sandbox-containers")
	o := p.innermost(dir)
	if o == nil || o.op != opOverlay || o.session {
		return "/var/tmp/sandbox-containers", false
	}
	return dir, true
}

// errNested says why this kernel has no containers inside.
var errNested = errors.New("--containers needs Linux 5.14 or newer: before, a namespace of one's own uncovered what the jail hides")

// mayNest refuses kernels on which a private overlay in a namespace of one's own showed what lies
// below a locked mount: Linux 5.14 refuses it (427215d85e8d, "ovl: prevent private clone if bind mount is not
// allowed").
func mayNest() error {
	if !kernelAtLeast(5, 14) {
		return errNested
	}
	return nil
}
