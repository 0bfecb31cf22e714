package undologtest

import (
	"os"
	"path/filepath"
	"runtime"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Plain: the file system has neither symlinks nor modes, attributes, FIFOs and files without a name, and exchanges no names, as Windows' for us.
const Plain = runtime.GOOS == "windows"

// T is what testing.T and rapid.T have in common.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// TellsWriters tells whether the system says who can write to a file in dir. Without that, an undo gives no setuid back to a file that it changes in place.
func TellsWriters(t T, dir string) bool {
	t.Helper()
	name := filepath.Join(dir, "who writes")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatalf("%v", err)
	}
	defer os.Remove(name)
	f, err := os.Open(name)
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer f.Close()
	_, known := hostfs.Written(int(f.Fd()))
	return known
}
