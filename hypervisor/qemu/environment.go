package qemu

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/remote"
)

// The ordinary user inside, as guest/inner makes it.
const (
	guestUser = "sandbox"
	guestHome = "/home/sandbox"
	guestPath = remote.Path
)

// ofTheHost are variables that name things of the host's. They are replaced, or
// left out, where a command's environment just repeats ours; what the user set
// for the command stays.
var ofTheHost = map[string]string{
	"HOME": guestHome, "USER": guestUser, "LOGNAME": guestUser, "SHELL": "/bin/sh", "PATH": guestPath,
	"TMPDIR": "", "PWD": "", "OLDPWD": "", "MAIL": "", "_": "",
}

// defaultEnv is the environment of commands that bring none.
func defaultEnv() []string {
	env := []string{"HOME=" + guestHome, "USER=" + guestUser, "LOGNAME=" + guestUser, "SHELL=/bin/sh", "PATH=" + guestPath, "SANDBOX=1"}
	return append(env, remote.Ours(map[string]string{"TERM": "", "LANG": "", "TZ": ""})...)
}

// foreign says that this system has other names than the guest's for such variables: no HOME, and Path.
const foreign = runtime.GOOS == "windows"

// lacking are the guest's own of the variables that say who and where somebody is, as far as env has none of that name.
func lacking(env []string) (add []string) {
	for _, name := range slices.Sorted(maps.Keys(ofTheHost)) {
		has := slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		if value := ofTheHost[name]; value != "" && !has {
			add = append(add, name+"="+value)
		}
	}
	return add
}

// environment is what a command gets to see.
func environment(c hypervisor.Command, add []string) []string {
	given := c.Env
	if given == nil {
		given = defaultEnv()
	}
	if foreign {
		given = append(slices.Clone(given), lacking(given)...)
	}
	return remote.Environ(given, c.TTY, func(k, v string) (string, bool) {
		inside, replaced := ofTheHost[k]
		switch {
		case strings.HasPrefix(k, "XDG_") && filepath.IsAbs(v):
			return "", false
		case replaced && v == os.Getenv(k):
			return inside, inside != ""
		}
		return v, true
	}, add...)
}
