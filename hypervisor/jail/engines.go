package jail

import (
	"fmt"
	"strconv"
)

// Where the files lie inside.
const (
	dir = "/run/sandbox-containers"
	// enginePrograms is the directory of programs that come first in PATH.
	enginePrograms = dir + "/bin"
)

const (
	containersConf = `# Written by sandbox for --containers: what containers cannot have in a jail.
[containers]
cgroups = "disabled"
cgroupns = "host"
netns = "host"
userns = "host"
keyring = false
default_sysctls = []
log_driver = "k8s-file"

# Beside the images: the user's own directory of settings may be read-only here.
[network]
network_config_dir = "%s/networks"

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
exec ` + enginePrograms + `/podman unshare %s "$@"
`
)

// engineFile is a file inside.
type engineFile struct {
	Path, Text string
	Program    bool // executable
}

// runtimeDir is where engines keep their locks.
func runtimeDir(uid int) string { return "/run/user/" + strconv.Itoa(uid) }

// engineFiles are the files for a user whose images lie in store. find returns the path of a program of the host, or
// empty. With alone the jail has just the user's id, so that programs stand in front.
func engineFiles(uid int, store string, alone bool, find func(name string) string) []engineFile {
	files := []engineFile{
		{Path: dir + "/containers.conf", Text: fmt.Sprintf(containersConf, store)},
		{Path: dir + "/storage.conf", Text: fmt.Sprintf(storageConf, runtimeDir(uid)+"/containers", store)},
	}
	for name, script := range map[string]string{"podman": podmanScript, "buildah": buildahScript} {
		if program := find(name); program != "" && alone {
			files = append(files, engineFile{enginePrograms + "/" + name, fmt.Sprintf(script, program), true})
		}
	}
	return files
}

// engineEnvironment is what leads engines to their configuration. Variables of the same names that a command
// brings would lead to the host's.
func engineEnvironment(uid int) map[string]string {
	return map[string]string{
		"CONTAINERS_CONF":         dir + "/containers.conf",
		"CONTAINERS_STORAGE_CONF": dir + "/storage.conf",
		"XDG_RUNTIME_DIR":         runtimeDir(uid),
	}
}
