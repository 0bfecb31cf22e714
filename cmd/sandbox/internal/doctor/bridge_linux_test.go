package doctor

import "testing"

// What is mounted below a folder is found, and what is beside it is not.
func TestMountedBelow(t *testing.T) {
	at := func(folder string) Host {
		return Host{Folder: func() (string, string, error) { return folder, "", nil }}
	}
	if at("/").mountedBelow() == "" {
		t.Error("nothing is mounted below /, which has /proc")
	}
	if m := at(t.TempDir()).mountedBelow(); m != "" {
		t.Errorf("below a new directory is %s", m)
	}
}
