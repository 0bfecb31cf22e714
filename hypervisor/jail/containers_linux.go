package jail

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// What containers inside are told.
const (
	containersDir  = "/run/sandbox-containers"
	programsDir    = containersDir + "/bin"
	cgroupDir      = "/sys/fs/cgroup"
	containersConf = `# Written by sandbox for --containers: what containers cannot have in a jail.
[containers]
cgroups = "disabled"
cgroupns = "host"
netns = "host"
userns = "host"
keyring = false
default_sysctls = []
log_driver = "k8s-file"

[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
`
	storageConf = `# Written by sandbox for --containers: one user id is all that a jail has.
[storage]
driver = "vfs"
runroot = "%s/runroot"
rootless_storage_path = "%s"

[storage.options]
ignore_chown_errors = "true"

[storage.options.vfs]
ignore_chown_errors = "true"
`
	// podman copies the map of ids that it finds to the namespace that it makes, and fails if there is
	// no 0 in it. It joins a namespace that it believes to have made.
	podmanScript = `#!/bin/sh
# Written by sandbox for --containers: podman cannot make a namespace of users where there is one id
# only, but joins one that is there.
dir=$XDG_RUNTIME_DIR/libpod/tmp
mkdir -p "$dir" && exec 9>"$dir/sandbox.lock" && flock 9 || exit 125
if ! kill -0 "$(cat "$dir/pause.pid" 2>/dev/null)" 2>/dev/null; then
	pid=$(setsid unshare --user --map-root-user --mount sh -c 'echo $$; exec sleep infinity </dev/null >/dev/null 2>&1' 9>&- &)
	[ -n "$pid" ] && printf %%s "$pid" >"$dir/pause.pid" || exit 125
fi
exec 9>&-
exec %s "$@"
`
	// buildah does without a map, but asks for groups, which nobody has in such a jail.
	buildahScript = `#!/bin/sh
# Written by sandbox for --containers: see podman beside it.
exec ` + programsDir + `/podman unshare %s "$@"
`
)

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
	run := "/run/user/" + strconv.Itoa(p.user.uid) + "/containers"
	p.add(mount{op: opFile, path: containersDir + "/containers.conf", content: containersConf, make: true})
	for name, script := range map[string]string{"podman": podmanScript, "buildah": buildahScript} {
		if program, err := exec.LookPath(name); err == nil && !p.user.root {
			p.add(mount{op: opFile, path: programsDir + "/" + name, content: fmt.Sprintf(script, program), mode: 0o555, make: true})
		}
	}
	p.add(mount{op: opFile, path: containersDir + "/storage.conf", content: fmt.Sprintf(storageConf, run, store), make: true})
}

// containerStore is where images lie: in the cache of the user if that can be written and is
// kept. It is not the place that engines take outside: they would find the host's database there, with
// settings that do not fit.
func (p *planner) containerStore() (dir string, kept bool) {
	dir = filepath.Join(p.user.home, ".cache", "sandbox-containers")
	o := p.overlayOf(dir)
	if o == nil || o.session {
		return "/var/tmp/sandbox-containers", false
	}
	return dir, true
}

// containersEnv is what leads engines to their configuration, and to a directory for their locks.
// Those that the command brings would lead to the host's.
func (g *guest) containersEnv() map[string]string {
	if !g.cfg.Containers {
		return nil
	}
	return map[string]string{
		"CONTAINERS_CONF":         containersDir + "/containers.conf",
		"CONTAINERS_STORAGE_CONF": containersDir + "/storage.conf",
		"XDG_RUNTIME_DIR":         "/run/user/" + strconv.Itoa(g.user.uid),
	}
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
