package escape

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// Threads take, give and exchange few names in few directories all at the same time. No bridge
// may rely on a kernel that keeps two operations on one name apart: over the mediated one, two
// renames to one name destroy one of the files, and of two links one fails; whatever the order, an
// undo brings all back.
func TestMBNamesTogether(t *testing.T) {
	overBridges(t, func(t *testing.T, b hypervisor.Bridge) {
		l := newLab(t, func(l *lab, c *api.Config) {
			c.Bridge = b
			for _, dir := range []string{"p", "q", "p/in"} {
				for i := range togetherNames {
					path := filepath.Join(l.work, dir, fmt.Sprint(i))
					put(t, path, dir+fmt.Sprint(i))
					must(t, os.Chmod(path, 0o666))
				}
				must(t, os.Chmod(filepath.Join(l.work, dir), 0o777))
			}
			must(t, os.Chmod(l.work, 0o777))
		})
		before := treesnap.MustTake(t, l.work)
		for round := range 4 {
			l.works(fmt.Sprint(program, " attack together ", round))
			undoAll(t, l)
			treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.work), treesnap.Options{IgnoreLinks: true}) // the log has names, too
		}
	})
}

// togetherNames is how many files there are in each directory: few, so that threads meet.
const togetherNames = 4

// together makes calls by chance in several threads.
func together(args []string) error {
	var all sync.WaitGroup
	for who := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(who), uint64(len(args[0]))+uint64(args[0][0])))
			for range 150 {
				somename(r)
			}
		})
	}
	all.Wait()
	return nil
}

func somename(r *rand.Rand) {
	name := func() string {
		return filepath.Join([]string{"p", "q", "p/in", "q/new"}[r.IntN(4)], fmt.Sprint(r.IntN(togetherNames)))
	}
	dir := []string{"p/in", "q/new", "q/more"}[r.IntN(3)]
	a, b := name(), name()
	switch r.IntN(10) {
	case 0, 1, 2:
		_ = unix.Rename(a, b)
	case 3:
		_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	case 4, 5:
		_ = unix.Link(a, b)
	case 6:
		_ = unix.Unlink(a)
	case 7:
		_ = os.WriteFile(a, []byte("new"), 0o644)
	case 8:
		_ = unix.Mkdir(dir, 0o777)
	case 9:
		if r.IntN(2) == 0 {
			_ = unix.Rmdir(dir)
			return
		}
		_ = unix.Rename(dir, []string{"p/in", "q/new", "q/more"}[r.IntN(3)])
	}
}
