package qemu

import (
	"os"
	"path/filepath"
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

// environment is what a command gets to see.
func environment(c hypervisor.Command, add []string) []string {
	given := c.Env
	if given == nil {
		given = defaultEnv()
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
