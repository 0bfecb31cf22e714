package undolog

import "testing"

// possibleOps are what random operations are drawn of, what is drawn more often more than once.
func possibleOps() []string {
	return []string{
		"create", "create", "write", "write", "truncate", "chmod", "rename", "rename", "exchange", "noreplace", "unlink", "unlink",
		"mkdir", "mkdir", "rmdir", "rmtree", "symlink", "link", "link", "linkover", "xattr", "rmxattr", "fifo", "punch", "fallocate", "tmpfile", "hold", "poke", "poke", "utimes", "collapse",
	}
}

// TestModelOtherFileSystem has the undo directory where nothing can be renamed
// or linked to.
func TestModelOtherFileSystem(t *testing.T) {
	base, undo := twoFileSystems(t)
	testModel(t, base, undo, false)
}
