//go:build linux && faults

package undolog

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestPackKilled kills a compression at each of its points, in a process of its
// own: the step can be undone from what is there, and compressed again.
func TestPackKilled(t *testing.T) {
	if base := os.Getenv("UNDOLOG_KILL_BASE"); base != "" {
		l := reopenLog(t, base, nil)
		_, err := l.GC(context.Background(), GCOptions{CompressAll: true})
		t.Fatalf("not killed: %v", err)
	}
	for _, point := range []string{
		"pack.add:1", "pack.add:3", "pack.rename:1", "pack.remove:1", "pack.unlink:1", "pack.unlink:2", "file.summary.json:1",
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", point, again), func(t *testing.T) {
				l, work := testLog(t, nil)
				motleyTree(t, work)
				want := treesnap.MustTake(t, work)
				a := newAdopter(t, l)
				for _, p := range []string{"tree", "big", "empty", "suid", "sparse", "link", "fifo", "hollow"} {
					a.adopt(p)
				}
				if strings.HasPrefix(point, "pack.unlink") { // something stays: the rest goes one by one
					mustWrite(t, filepath.Join(a.path, "blobs", "0", "2.1"), "content blob")
				}
				a.commit()
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(os.Args[0], "-test.run=^TestPackKilled$")
				cmd.Env = append(os.Environ(), "UNDOLOG_KILL_BASE="+filepath.Dir(work), fault.Var+"=kill:"+point)
				if o, err := cmd.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
					t.Fatalf("child: %v\n%s", err, o)
				}
				l = reopenLog(t, filepath.Dir(work), nil)
				ctx := context.Background()
				if again {
					if _, err := l.GC(ctx, GCOptions{CompressAll: true}); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := l.Undo(ctx, UndoOptions{}); err != nil {
					t.Fatal(err)
				}
				treesnap.Same(t, "tree", want, treesnap.MustTake(t, work))
			})
		}
	}
}
