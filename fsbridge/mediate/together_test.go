//go:build linux

package mediate

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Threads make a directory and what is in it at the same time, as package managers do:
// each finds that the directory is there or that it is missing, and nothing else.
func TestMBMakeTogether(t *testing.T) {
	j := newJail(t)
	in := j.start("makeTogether", j.folder)
	if said := in.hear(); said != "<nil>" {
		t.Error(said)
	}
	in.ok()
}

func makeTogether(w *workload) {
	parent := filepath.Join(w.args[0], "parent")
	for range 200 {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for {
					err := unix.Mkdir(filepath.Join(parent, fmt.Sprint(i)), 0o755)
					if err == unix.ENOENT {
						if err = unix.Mkdir(parent, 0o755); err == nil || err == unix.EEXIST {
							continue
						}
					}
					if err != nil {
						w.say("%v", err)
						os.Exit(1)
					}
					return
				}
			})
		}
		all.Wait()
		if err := os.RemoveAll(parent); err != nil {
			w.say("%v", err)
			os.Exit(1)
		}
	}
	w.say("%v", error(nil))
}
