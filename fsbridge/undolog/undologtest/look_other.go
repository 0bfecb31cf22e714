//go:build !linux

package undologtest

import (
	"fmt"
	"os"
	"runtime"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// lookAt asks the package on which the log stands who a file is: the system's own call does not say it as numbers.
func lookAt(t T, p string) look {
	t.Helper()
	st, err := os.Lstat(p)
	if err != nil {
		t.Fatalf("%v", err)
	}
	fd, err := posix.Open(p, posix.O_PATH, 0)
	if err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	defer hostfs.Close(fd)
	now, err := hostfs.StatFD(fd)
	if err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	return look{
		mode: now.Mode, ino: now.Ino, opens: st.IsDir(),
		line: fmt.Sprintf("%v mtime %d", st.Mode(), st.ModTime().UnixNano()),
	}
}

// plain: the file system has neither symlinks nor attributes, as Windows' for us.
const plain = runtime.GOOS == "windows"

// TellsWriters tells that the system does not say who can write to a file.
func TellsWriters(T, string) bool { return false }
