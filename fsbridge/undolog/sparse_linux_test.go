package undolog

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/require"
)

const (
	sparseSize = 3 << 30
	sparseMost = 128 << 10 // that a sparse file of the tests may occupy
)

// makeSparse makes a file of which there is little: at the front, in the middle and near the end.
func makeSparse(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, off := range []int64{5000, 1 << 30, sparseSize - 70_000} {
		if _, err := f.WriteAt([]byte(fmt.Sprint("data at ", off)), off); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(sparseSize); err != nil {
		t.Fatal(err)
	}
}

// sparseContent is all that a file holds but zeros. It fails if more than a little is on the disk.
func sparseContent(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	st, err := hostfs.StatFD(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if st.Blocks*512 > sparseMost {
		t.Fatalf("%s occupies %d bytes: its holes are filled", path, st.Blocks*512)
	}
	text := fmt.Sprint(fi.Size(), ":")
	for off := int64(0); ; {
		start, end, err := hostfs.NextData(int(f.Fd()), off, fi.Size())
		if err != nil {
			t.Fatal(err)
		}
		if start >= end {
			return text
		}
		buf := make([]byte, end-start)
		if _, err := f.ReadAt(buf, start); err != nil {
			t.Fatal(err)
		}
		for i, b := range buf {
			if b != 0 {
				text += fmt.Sprintf(" %d=%c", start+int64(i), b)
			}
		}
		off = end
	}
}

// TestU7SparseFiles does to a sparse file what commands do, undoes it, does it again and undoes
// it: with the log on the same and on another file system, packed and not. Holes stay holes, in the
// folder and in the log, and the log takes them for nothing.
func TestU7SparseFiles(t *testing.T) {
	changes := map[string]func(w *world) error{
		"a few bytes are written": func(w *world) error { return w.write("f", 6000, "xyz") },
		"bytes are written in a hole": func(w *world) error {
			if err := w.write("f", 1<<29, "xyz"); err != nil {
				return err
			}
			return w.write("f", sparseSize-10, "xyz")
		},
		"the end is cut off":     func(w *world) error { return w.truncate("f", 1<<20) },
		"all is cut off":         func(w *world) error { return w.truncate("f", 0) },
		"it grows":               func(w *world) error { return w.truncate("f", 2*sparseSize) },
		"a hole is punched":      func(w *world) error { return w.fallocate("f", 3, 1<<30-4096, 1<<20) },
		"it is removed":          func(w *world) error { return w.unlink("f") },
		"it is replaced":         func(w *world) error { return w.rename("other", "f", 0) },
		"it is removed in a dir": func(w *world) error { return w.unlink("d/f") },
		"somebody writes who does not ask": func(w *world) error {
			w.Prepare = func(op *fsbridge.Op) { op.Ahead, op.Off, op.Len = op.Kind == fsbridge.OpWrite, 0, math.MaxInt64 }
			defer func() { w.Prepare = nil }()
			return w.write("f", 6000, "xyz")
		},
		"somebody has it open": func(w *world) error {
			if err := w.hold("f"); err != nil {
				return err
			}
			return w.poke(0, 7000, "xyz")
		},
	}
	for name, change := range changes {
		for _, where := range []string{"same", "other"} {
			for _, packed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s file system/packed %v", name, where, packed), func(t *testing.T) {
					base, undo := twoFileSystems(t)
					if where == "same" {
						undo = base + "/undo"
					}
					sparseRoundTrip(t, base, undo, change, packed)
				})
			}
		}
	}
}

func sparseRoundTrip(t *testing.T, base, undo string, change func(w *world) error, packed bool) {
	if err := os.MkdirAll(base+"/work/d", 0o755); err != nil {
		t.Fatal(err)
	}
	files := []string{base + "/work/f", base + "/work/d/f"}
	for _, f := range files {
		makeSparse(t, f)
	}
	if err := os.WriteFile(base+"/work/other", []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, base, Options{Dir: undo})
	defer w.close()
	want := []string{sparseContent(t, files[0]), sparseContent(t, files[1])}
	same := func(when string) {
		t.Helper()
		for i, f := range files {
			if got := sparseContent(t, f); got != want[i] {
				t.Fatalf("%s: %s is %.200s, want %.200s", when, f, got, want[i])
			}
		}
	}
	e := w.step(func() { w.ok(change(w)) })
	if e.StoredBytes > sparseMost {
		t.Errorf("the step keeps %d bytes", e.StoredBytes)
	}
	if packed {
		if _, err := w.log.GC(context.Background(), GCOptions{CompressAll: true}); err != nil {
			t.Fatal(err)
		}
	}
	w.undo(1)
	same("undo")
	w.redo(1)
	w.undo(1)
	same("second undo")
}

// TestU7SharedExtents: where files can share extents, an undo gives shared ones back. Twice the
// file does not fit on the disk.
func TestU7SharedExtents(t *testing.T) {
	const size = 160 << 20
	base := require.Image(t, "btrfs", 256<<20)
	if err := os.Mkdir(base+"/work", 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(base + "/work/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	random := rand.NewChaCha8([32]byte{})
	if _, err := io.CopyN(f, random, size); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	before, after := make([]byte, 64), make([]byte, 64)
	if _, err := f.ReadAt(before, 7000); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, base, Options{})
	defer w.close()
	w.Prepare = func(op *fsbridge.Op) { op.Ahead, op.Off, op.Len = op.Kind == fsbridge.OpWrite, 0, math.MaxInt64 }
	w.step(func() { w.ok(w.write("f", 7000, "changed")) })
	w.undo(1)
	if _, err := f.ReadAt(after, 7000); err != nil || string(before) != string(after) {
		t.Errorf("%q instead of %q, %v", after, before, err)
	}
	if err := f.Sync(); err != nil { // what is not shared must have its space now
		t.Error(err)
	}
}
