package shim

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// lookup finds a program as execvp does, with the command's own PATH and
// relative to its own directory. The error wraps errNotFound where nothing by
// that name exists.
func lookup(name, dir string, env []string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return "", fmt.Errorf(control.NoDirectory+"%s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return "", fmt.Errorf(control.NoDirectory+"%s: %w", dir, unix.ENOTDIR)
	}
	if name == "" {
		return "", fmt.Errorf("%q: %w", name, errNotFound)
	}
	if strings.Contains(name, "/") {
		err := executable(name, dir)
		if err == unix.ENOENT || err == unix.ENOTDIR {
			return "", fmt.Errorf("%s: %w", name, errNotFound)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return name, nil
	}
	var denied error
	for _, d := range filepath.SplitList(pathOf(env)) {
		if d == "" {
			d = "."
		}
		p := d + "/" + name
		switch err := executable(p, dir); err {
		case nil:
			return p, nil
		case unix.ENOENT, unix.ENOTDIR:
		default:
			// A directory of the user's PATH that the workload may not search is
			// no reason to call a name found.
			if unix.Access(d, unix.X_OK) == nil {
				denied = err
			}
		}
	}
	if denied != nil {
		return "", fmt.Errorf("%s: %w", name, denied)
	}
	return "", fmt.Errorf("%s: %w", name, errNotFound)
}

func pathOf(env []string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if p, ok := strings.CutPrefix(env[i], "PATH="); ok {
			return p
		}
	}
	return "/usr/local/bin:/usr/bin:/bin"
}

func absolute(path, dir string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return dir + "/" + path
}

func executable(path, dir string) error {
	path = absolute(path, dir)
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.EISDIR
	}
	return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
}
