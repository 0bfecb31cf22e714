//go:build !linux

package undolog

// possibleOps are those of Linux's that the file calls of this system have by themselves: the rest is kept beside the log (package posixmeta).
func possibleOps() []string {
	return []string{
		"create", "create", "write", "write", "truncate", "rename", "rename", "noreplace", "unlink", "unlink",
		"mkdir", "mkdir", "rmdir", "rmtree", "link", "link", "linkover", "hold", "poke", "poke", "utimes",
	}
}
