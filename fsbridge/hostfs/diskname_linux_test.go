package hostfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// TestDiskNameExact: where case counts, a name is never another one, whatever else is
// there. (tests/suite/filesystems has file systems on which it does not.)
func TestDiskNameExact(t *testing.T) {
	dir := t.TempDir()
	root, err := hostfs.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range []string{"foo", "Foo", "alone", "123", "ä", "Ä", "\xff\xfe"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "foo"), filepath.Join(dir, "FOO")); err != nil {
		t.Fatal(err)
	}
	for name, exact := range map[string]bool{
		"foo": false, "Foo": false, "FOO": true, "alone": true, "123": false, "ä": false, "\xff\xfe": false,
	} {
		st, err := hostfs.StatAt(root.FD(), name)
		if err != nil {
			t.Fatal(err)
		}
		if disk, known := hostfs.DiskName(root.FD(), name, &st); disk != name || known != exact {
			t.Errorf("%q is %q, exact %v; want itself, %v", name, disk, known, exact)
		}
	}
	// Somebody removes it after it was seen: what differs only in case is another file.
	st, err := hostfs.StatAt(root.FD(), "Foo")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "Foo")); err != nil {
		t.Fatal(err)
	}
	if disk, _ := hostfs.DiskName(root.FD(), "Foo", &st); disk != "Foo" {
		t.Errorf("a removed name is %q", disk)
	}
}
