package undolog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// genPath draws a path of one to three components of few names. Half of them
// are there, so that several operations meet at one file.
func genPath(t *rapid.T, w *world) string {
	if rapid.Bool().Draw(t, "there") {
		if there := pathsBelow(w.base + "/work"); len(there) > 0 {
			return rapid.SampledFrom(there).Draw(t, "path")
		}
	}
	name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	p := name.Draw(t, "name")
	for range rapid.SampledFrom([]int{0, 0, 1, 1, 2}).Draw(t, "depth") {
		p += "/" + name.Draw(t, "name")
	}
	return p
}

// pathsBelow are those in dir that can be read, sorted.
func pathsBelow(dir string) (paths []string) {
	_ = filepath.WalkDir(dir, func(p string, _ fs.DirEntry, _ error) error {
		if p != dir {
			paths = append(paths, filepath.ToSlash(p[len(dir)+1:]))
		}
		return nil
	})
	return paths
}

// randomOp does one random operation; that it is impossible is fine.
func randomOp(t *rapid.T, w *world) {
	lengths, offsets, sizes := []int{0, 5, 300, 70000}, []int64{0, 3, 100, 65536, 200000}, []int64{0, 1, 5, 66000, 300000}
	if w.small {
		lengths, offsets, sizes = []int{0, 5, 300}, []int64{0, 3, 100}, []int64{0, 1, 5, 700}
	}
	data := func() string {
		return fmt.Sprintf("%d-%s", rapid.IntRange(0, 9).Draw(t, "data"), string(make([]byte, rapid.SampledFrom(lengths).Draw(t, "len"))))
	}
	off := func() int64 { return rapid.SampledFrom(offsets).Draw(t, "off") }
	p := genPath(t, w)
	var err error
	renameTo := ""
	op := rapid.SampledFrom(possibleOps()).Draw(t, "op")
	switch op {
	case "create":
		err = w.create(p, data())
	case "write":
		err = w.write(p, off(), data())
	case "truncate":
		err = w.truncate(p, rapid.SampledFrom(sizes).Draw(t, "size"))
	case "chmod":
		err = w.chmod(p, rapid.SampledFrom([]uint32{0o755, 0o644, 0o4755, 0o2700, 0o1777, 0, 0o400}).Draw(t, "mode"))
	case "rename":
		renameTo = genPath(t, w)
		err = w.rename(p, renameTo, 0)
	case "exchange":
		renameTo = genPath(t, w)
		err = w.rename(p, renameTo, posix.RENAME_EXCHANGE)
	case "noreplace":
		renameTo = genPath(t, w)
		err = w.rename(p, renameTo, posix.RENAME_NOREPLACE)
	case "unlink":
		err = w.unlink(p)
	case "mkdir":
		err = w.mkdir(p)
	case "rmdir":
		err = w.rmdir(p)
	case "rmtree":
		err = rmtree(w, p)
	case "symlink":
		err = w.symlink("../"+genPath(t, w), p)
	case "link":
		renameTo = genPath(t, w)
		err = w.link(p, renameTo)
	case "linkover": // as ln -f does
		renameTo = genPath(t, w)
		if err = w.link(p, "e"); err == nil {
			if err = w.rename("e", renameTo, 0); err != nil {
				err = w.unlink("e")
			}
		}
	case "xattr":
		err = w.setxattr(p, "user.a", fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "value")))
	case "rmxattr":
		err = w.setxattr(p, "user.a", "")
	case "fifo":
		err = w.fifo(p)
	case "punch":
		err = w.fallocate(p, posix.FALLOC_FL_PUNCH_HOLE|posix.FALLOC_FL_KEEP_SIZE, off(), 4096)
	case "collapse":
		err = w.fallocate(p, posix.FALLOC_FL_COLLAPSE_RANGE, 0, 4096)
	case "fallocate":
		err = w.fallocate(p, 0, off(), 5000)
	case "tmpfile":
		err = w.tmpfile("", p, data())
	case "hold":
		if len(w.held) < 4 {
			err = w.hold(p)
		}
	case "poke":
		err = w.poke(rapid.IntRange(0, 3).Draw(t, "handle"), off(), data())
	case "utimes":
		err = w.utimes(p, int64(rapid.IntRange(1, 1<<40).Draw(t, "mtime")))
	}
	if err == nil {
		t.Logf("DID %s %s %s", op, p, renameTo)
	}
	var errno posix.Errno
	if err != nil && !errors.Is(err, errNoSuch) && (!errors.As(err, &errno) || errno == posix.EIO || errno == posix.ESTALE) {
		t.Fatalf("%s %s: %v", op, p, err)
	}
}

func rmtree(w *world, p string) error {
	if err := w.unlink(p); err == nil {
		return nil
	}
	entries, err := os.ReadDir(w.base + "/work/" + p)
	if err != nil {
		return errNoSuch
	}
	for _, e := range entries {
		if err := rmtree(w, p+"/"+e.Name()); err != nil {
			return err
		}
	}
	return w.rmdir(p)
}

// restoreModel restores p to state k. It tells whether that made a step.
func restoreModel(t *rapid.T, w *world, p string, k int, snaps []*treesnap.Snapshot) bool {
	steps := w.log.stepEntries()
	before := w.snapshot()
	w.NewEpoch()
	t.Logf("DID restore %s to %d", p, k)
	o := RestoreOptions{Path: p, Step: steps[k].StepID}
	res, err := w.log.Restore(context.Background(), o)
	if errors.Is(err, ErrElsewhere) {
		treesnap.Same(t, "refused restore", before, w.snapshot())
		o.Force = true
		res, err = w.log.Restore(context.Background(), o)
	}
	w.Forget()
	var errno posix.Errno
	if errors.As(err, &errno) && (errno == posix.ENOENT || errno == posix.EACCES) {
		treesnap.Same(t, "refused restore", before, w.snapshot())
		return false
	}
	if err != nil {
		t.Fatalf("restore %s: %v", p, err)
	}
	below := func(s *treesnap.Snapshot, in bool) *treesnap.Snapshot {
		out := &treesnap.Snapshot{Entries: map[string]treesnap.Entry{}}
		for path, e := range s.Entries {
			if (path == p || strings.HasPrefix(path, p+"/")) == in && (in || e.Group == "") { // else perhaps another name of what is restored
				e.Group = ""
				out.Entries[path] = e
			}
		}
		return out
	}
	now := w.snapshot()
	treesnap.Same(t, "restored", below(snaps[k], true), below(now, true))
	outside, after := below(before, false), below(now, false)
	for path := range after.Entries {
		if _, ok := outside.Entries[path]; !ok && before.Line(path) != "" {
			delete(after.Entries, path)
		}
	}
	for path := range outside.Entries {
		if _, ok := after.Entries[path]; !ok && now.Entries[path].Group != "" {
			delete(outside.Entries, path)
		}
	}
	treesnap.Same(t, "not to be restored", outside, after)
	return len(res.Steps) > 0
}

// TestModel does random operations in several steps and moves back and forth
// between them; each time the whole tree must be as it was.
func TestModel(t *testing.T) { testModel(t, testDir(t), "", false) }

// TestModelPacked compresses steps in between.
func TestModelPacked(t *testing.T) { testModel(t, testDir(t), "", true) }

func testModel(t *testing.T, base, undo string, pack bool) {
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := fmt.Sprintf("%s/%d", base, n)
		o := Options{Settings: Settings{Limits: Limits{InlineBytes: rapid.SampledFrom([]int64{64, 64 << 10}).Draw(t, "inline")}}}
		if undo != "" {
			o.Dir = fmt.Sprintf("%s/%d", undo, n)
			defer removeForTest(o.Dir)
		}
		w := newWorld(t, dir, o)
		defer removeForTest(dir)
		defer w.close()
		snaps := []*treesnap.Snapshot{w.snapshot()}
		at := 0
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			for range rapid.IntRange(1, 3).Draw(t, "steps") {
				t.Logf("DID step after %d", at)
				e := w.step(func() {
					for range rapid.IntRange(1, 12).Draw(t, "ops") {
						randomOp(t, w)
					}
				})
				if e == nil {
					treesnap.Same(t, "step that changed nothing", snaps[at], w.snapshot())
					snaps = snaps[:at+1+w.log.Status().Redoable]
					continue
				}
				snaps = append(snaps[:at+1], w.snapshot())
				at++
			}
			if at > 0 && rapid.IntRange(0, 2).Draw(t, "restore") == 0 {
				k := rapid.IntRange(0, at-1).Draw(t, "restore to")
				p := genPath(t, w)
				if restoreModel(t, w, p, k, snaps) {
					snaps = append(snaps[:at+1], w.snapshot())
					at++
				}
			}
			for range rapid.IntRange(0, 4).Draw(t, "moves") {
				k := rapid.IntRange(-at, len(snaps)-1-at).Draw(t, "move")
				t.Logf("DID move %d", k)
				if pack && rapid.Bool().Draw(t, "pack") {
					if _, err := w.log.GC(context.Background(), GCOptions{CompressAll: true}); err != nil {
						t.Fatalf("pack: %v", err)
					}
				}
				switch {
				case k < 0:
					w.undo(-k)
				case k > 0:
					w.redo(k)
				}
				at += k
				treesnap.Same(t, fmt.Sprintf("move by %d to %d", k, at), snaps[at], w.snapshot())
			}
		}
	})
}
