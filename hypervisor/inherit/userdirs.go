package inherit

import (
	"os"
	"runtime"
)

// UnfitDir is a variable that is set and whose value is not used.
type UnfitDir struct {
	Name, Value string
	Why         string // in words that follow the value
}

// lasting is where temporary files go if no variable is of use. On Windows the system says it.
const lasting = "/tmp"

// own is the directory in one that is this user's alone.
const own = "sandbox"

// SocketDir returns the directory, private to this user, in which sessions register and have their sockets; it need not exist. unfit are the variables that
// would have named another one.
func SocketDir() (dir string, unfit []UnfitDir) {
	dir, unfit = named("XDG_RUNTIME_DIR", own, nil)
	if dir != "" {
		return dir, nil
	}
	uid := os.Getuid()
	if uid == 0 && runtime.GOOS == "darwin" {
		return "/var/run/sandbox", unfit // there is no /run
	}
	if uid == 0 {
		return "/run/sandbox", unfit
	}
	name := own + "-" + decimal(uid)
	if uid < 0 { // Windows numbers no users, and each has a directory for temporary files
		name = own
	}
	if dir, unfit = named("TMPDIR", name, unfit); dir != "" {
		return dir, unfit
	}
	return system() + "/" + name, unfit
}

// TemporaryDir returns an absolute directory for temporary files, and the variable that would have named another one, if it is unfit.
func TemporaryDir() (dir string, unfit []UnfitDir) {
	if dir, unfit = named("TMPDIR", "", nil); dir != "" {
		return dir, nil
	}
	return system(), unfit
}

// named returns what name is in the directory that a variable names, or empty, and adds to unfit why.
func named(variable, name string, unfit []UnfitDir) (string, []UnfitDir) {
	value := os.Getenv(variable)
	if value == "" {
		return "", unfit
	}
	if why := unusable(value, name); why != "" {
		return "", append(unfit, UnfitDir{variable, value, why})
	}
	if name == "" {
		return value, unfit
	}
	return value + "/" + name, unfit
}

// unusable says why a directory cannot have something of this user's, which is called name; empty: it can. As after su, or where
// nobody has made it.
func unusable(dir, name string) string {
	if !absolute(dir) {
		return "no absolute path"
	}
	st, err := os.Stat(dir)
	switch {
	case os.IsNotExist(err):
		return "there is no such directory"
	case err != nil:
		return "it cannot be looked at"
	case !st.IsDir():
		return "it is no directory"
	}
	if why := exposed(st, name == own); why != "" {
		return why
	}
	if name != "" {
		if _, err := os.Lstat(dir + "/" + name); err == nil {
			return ""
		}
	}
	if !writable(dir) {
		return "it cannot be written"
	}
	return ""
}

// decimal is a number of a user.
func decimal(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return decimal(n/10) + string(rune('0'+n%10))
}
