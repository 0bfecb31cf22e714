package posix

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/codeagent/sandbox/tests/kit/rights"
)

// TestOthersCanWrite: a file of ours counts until its access list, or its lack of one, lets others write.
func TestOthersCanWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := func(theirs windows.ACCESS_MASK) {
		t.Helper()
		if err := rights.SetEverybody(path, theirs); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		theirs windows.ACCESS_MASK
		counts bool
	}{{0, true}, {windows.FILE_GENERIC_READ, true}, {windows.FILE_GENERIC_WRITE, false}, {windows.GENERIC_ALL, false}} {
		set(c.theirs)
		if err := OthersCanWritePath(path); (err == nil) != c.counts {
			t.Errorf("with %#x for everybody: %v", c.theirs, err)
		}
	}
	set(0)
	f, err := Open(path, O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = Close(f) }()
	if err := OthersCanWrite(f); err != nil {
		t.Error(err)
	}
}
