package qemu

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/codeagent/sandbox/hypervisor"
)

// The ordinary user inside, as guest/inner makes it.
const (
	guestUser = "sandbox"
	guestHome = "/home/sandbox"
	guestPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
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
	for _, k := range []string{"TERM", "LANG", "TZ"} {
		if v := os.Getenv(k); v != "" {
			env = append(env, k+"="+v)
		}
	}
	return env
}

// environment is what a command gets to see.
func environment(c hypervisor.Command) []string {
	given := c.Env
	if given == nil {
		given = defaultEnv()
	}
	out := make([]string, 0, len(given)+2)
	for _, e := range given {
		k, v, _ := strings.Cut(e, "=")
		inside, replaced := ofTheHost[k]
		switch {
		case hypervisor.KeptOutside(k) || k == "SANDBOX" || strings.HasPrefix(k, "XDG_") && filepath.IsAbs(v):
			continue
		case k == "TERM" && c.TTY != nil && c.TTY.Term != "":
			continue
		case replaced && v == os.Getenv(k):
			if inside == "" {
				continue
			}
			e = k + "=" + inside
		}
		out = append(out, e)
	}
	if c.TTY != nil && c.TTY.Term != "" {
		out = append(out, "TERM="+c.TTY.Term)
	}
	return append(out, "SANDBOX=1")
}
