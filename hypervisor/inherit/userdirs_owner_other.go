//go:build !unix

package inherit

import "os"

func absolute(path string) bool {
	return len(path) > 2 && path[1] == ':' || path != "" && path[0] == '/'
}

// system is the directory for this user's temporary files.
func system() string { return os.TempDir() }

// exposed has nothing to look at: a mode tells nothing here of who may write. These directories are below the user's profile, whose list of
// access keeps other users out.
func exposed(os.FileInfo, bool) string { return "" }

func writable(string) bool { return true }
