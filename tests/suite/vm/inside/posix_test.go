//go:build inguest

package inside

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"
)

// folder is where the working folder is mounted.
const folder = "/w"

// leftOut are tests that cannot pass here, and why.
var leftOut = map[string]string{
	"FstatDeleted": "no FUSE server without directory handles can answer it",
	"FdLeak":       "counts the descriptors of a server in this process",
	"DirectIO":     "the host's file system decides",
	"XAttrLarge":   "the host's file system decides",
	// Locks are the guest's own: one process has all of a file's.
	"FcntlFlockLocksFile": "expects a process to be kept out by its own lock",
	"OpenSymlinkRace":     "14 s; it runs on a kernel mount",
}

func TestPosix(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(posixtest.All)) {
		if leftOut[name] != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp(folder, "posix")
			if err != nil {
				t.Fatal(err)
			}
			posixtest.All[name](t, dir)
		})
	}
}
