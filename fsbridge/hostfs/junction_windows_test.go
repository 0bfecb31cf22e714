package hostfs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/tests/kit/junction"
)

// TestWN06WN07Junction: a junction is a symlink, which no path passes; and what removes a tree does not remove what a junction in it leads to.
func TestWN06WN07Junction(t *testing.T) {
	f := junction.New(t)
	r, err := OpenRoot(f.Path)
	must(t, err)
	defer r.Close()
	st, err := StatAt(r.FD(), junction.Name)
	if err != nil || !st.IsSymlink() {
		t.Errorf("the junction has mode %o, %v", st.Mode, err)
	}
	for path, flags := range map[string]int{
		junction.Name:            posix.O_RDONLY | posix.O_DIRECTORY,
		junction.Name + "/f":     posix.O_RDWR | posix.O_TRUNC,
		junction.Name + "/sub":   posix.O_RDONLY | posix.O_DIRECTORY,
		junction.Name + "/sub/g": posix.O_RDONLY,
		junction.Name + "/made":  posix.O_RDWR | posix.O_CREAT,
		junction.Name + `\f`:     posix.O_RDONLY,
	} {
		if fd, err := r.OpenPath(path, flags); err == nil {
			t.Errorf("%s was opened", path)
			must(t, Close(fd))
		}
	}
	f.Untouched()

	// Where it cannot be removed itself, what it leads to stays all the same.
	if err := RemoveAll(context.Background(), r.FD(), junction.Name, nil); err != nil && !f.Fixed {
		t.Errorf("a junction could not be removed: %v", err)
	}
	if !f.Fixed {
		if _, err := os.Lstat(filepath.Join(f.Path, junction.Name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the junction is still there: %v", err)
		}
		return
	}
	f.Untouched()
}
