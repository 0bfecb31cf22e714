//go:build linux

package undolog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// motleyTree makes one of everything.
func motleyTree(t testing.TB, root string) {
	hollow := os.FileMode(0o500)
	if os.Geteuid() != 0 { // may not move what it may not write to: the log copies that
		hollow = 0o750
	}
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 3<<20+17)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	for i := range 300 {
		mustWrite(t, filepath.Join(root, "d", strconv.Itoa(i%7), fmt.Sprintf("f%d.txt", i)), strings.Repeat(fmt.Sprintln("line", i), i))
	}
	mustWrite(t, filepath.Join(root, "big"), string(noise))
	mustWrite(t, filepath.Join(root, "empty"), "")
	mustWrite(t, filepath.Join(root, "odd\nname\xff"), "x")
	mustWrite(t, filepath.Join(root, "tree/a/one"), "hard linked")
	mustWrite(t, filepath.Join(root, "suid"), "s")
	sparse, err := os.Create(filepath.Join(root, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	_, werr := sparse.WriteAt([]byte("middle"), 5<<20)
	err = errors.Join(werr, sparse.Truncate(9<<20), sparse.Close(),
		os.Link(filepath.Join(root, "tree/a/one"), filepath.Join(root, "tree/two")),
		os.Symlink("../outside\x01", filepath.Join(root, "link")),
		unix.Mkfifo(filepath.Join(root, "fifo"), 0o640),
		os.Mkdir(filepath.Join(root, "hollow"), hollow),
		os.Chmod(filepath.Join(root, "suid"), 0o4751|os.ModeSetuid),
		unix.Setxattr(filepath.Join(root, "suid"), "user.test", []byte("value"), 0))
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		t.Fatal(err)
	}
	old := []unix.Timespec{{Sec: 1, Nsec: 5}, {Sec: 1234567890, Nsec: 123456789}}
	for _, p := range []string{"link", "fifo", "big", "hollow", "tree/a"} {
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(root, p), old, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPackRoundTrip adopts one of everything, the directory "tree" as a whole
// as redo does, packs it, and undoes it from the pack.
func TestPackRoundTrip(t *testing.T) {
	l, work := testLog(t, nil)
	motleyTree(t, work)
	want := treesnap.MustTake(t, work)
	a := newAdopter(t, l)
	for _, p := range []string{"tree", "big", "empty", "odd\nname\xff", "suid", "sparse", "link", "fifo", "hollow", "d"} {
		a.adopt(p)
	}
	e := a.commit()
	before := e.StoredBytes
	res, err := l.GC(context.Background(), GCOptions{CompressAll: true})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(res.Compressed, []StepID{e.StepID}) || res.BytesAfter >= before {
		t.Fatalf("GC: %+v, before %d", res, before)
	}
	if _, err := os.Stat(filepath.Join(l.o.Dir, "steps", e.name, "blobs")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("blobs/ is still there: %v", err)
	}
	if _, err := l.Undo(context.Background(), UndoOptions{}); err != nil {
		t.Fatal(err)
	}
	treesnap.Same(t, "tree", want, treesnap.MustTake(t, work))
	var one, two, sparse unix.Stat_t
	if err := errors.Join(unix.Stat(filepath.Join(work, "tree/a/one"), &one), unix.Stat(filepath.Join(work, "tree/two"), &two),
		unix.Stat(filepath.Join(work, "sparse"), &sparse)); err != nil {
		t.Fatal(err)
	}
	if one.Ino != two.Ino {
		t.Error("the hard link group was torn apart")
	}
	if sparse.Blocks*512 > 1<<20 {
		t.Errorf("the sparse file occupies %d bytes", sparse.Blocks*512)
	}
}

// TestPackKeepsWhatMayChange: inodes that are in use, have a name outside or
// are referred to by a later step stay as they are.
func TestPackKeepsWhatMayChange(t *testing.T) {
	l, work := testLog(t, nil)
	for _, p := range []string{"plain", "open", "linked", "pinned"} {
		mustWrite(t, filepath.Join(work, p), strings.Repeat(p, 100))
	}
	if err := os.Link(filepath.Join(work, "linked"), filepath.Join(work, "other")); err != nil {
		t.Fatal(err)
	}
	a := newAdopter(t, l)
	objs := map[string]format.ObjID{}
	for _, p := range []string{"plain", "open", "linked", "pinned"} {
		objs[p] = a.adopt(p)
	}
	l.host.Retained.NoteHandles(&fsbridge.Object{ID: a.objs["open"].ID, Place: openPlace{}})
	e := a.commit()
	later := newAdopter(t, l)
	pin := format.Object{Obj: later.next, ID: a.objs["pinned"].ID, RetainedSeq: e.Seq, RetainedObj: objs["pinned"],
		Meta: a.objs["pinned"].Meta}
	later.buf.Object(&pin)
	later.commit()
	if _, err := l.GC(context.Background(), GCOptions{CompressAll: true}); err != nil {
		t.Fatal(err)
	}
	dir, err := l.openStepEntry(e)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	blobs, _, err := store.AdoptedBlobs(dir.FD)
	if err != nil {
		t.Fatal(err)
	}
	var left []format.ObjID
	for _, b := range blobs {
		left = append(left, b.Obj)
	}
	if want := []format.ObjID{objs["open"], objs["linked"], objs["pinned"]}; !slices.Equal(left, want) {
		t.Errorf("left as they are: %v, want %v", left, want)
	}
	p, err := store.OpenPack(dir.FD)
	if err != nil || p == nil {
		t.Fatal(err)
	}
	defer p.Close()
	for name, obj := range objs {
		if p.Has(obj) != (name == "plain") {
			t.Errorf("%s is packed: %v", name, p.Has(obj))
		}
	}
}

// openPlace is a file with one handle open.
type openPlace struct{ fsbridge.Place }

func (openPlace) Handles() int { return 1 }

// goSource returns Go's own source tree. It asks the command: a test that was built
// with -trimpath does not know.
func goSource(t testing.TB) string {
	o, err := exec.Command("go", "env", "GOROOT").Output()
	src := filepath.Join(strings.TrimSpace(string(o)), "src")
	if err == nil {
		_, err = os.Stat(filepath.Join(src, "net"))
	}
	if err != nil {
		require.Missing(t, fmt.Sprintf("Go's source tree (%v)", err), "install Go from https://go.dev/dl, which has it in GOROOT/src")
	}
	return src
}

// TestStoreSize: what is left of an adopted source tree after compression.
func TestStoreSize(t *testing.T) {
	l, work := testLog(t, nil)
	if o, err := exec.Command("cp", "-a", filepath.Join(goSource(t), "net"), filepath.Join(work, "src")).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, o)
	}
	a := newAdopter(t, l)
	a.removeAll("src")
	e := a.commit()
	raw := e.StoredBytes
	if _, err := l.GC(context.Background(), GCOptions{CompressAll: true}); err != nil {
		t.Fatal(err)
	}
	o, err := exec.Command("du", "-sB1", "--exclude=reserve", l.o.Dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	used, _ := strconv.ParseInt(strings.Fields(string(o))[0], 10, 64)
	if used*100 > raw*30 {
		t.Errorf("%d of %d bytes are left", used, raw)
	}
	if st := l.Status(); st.StoredBytes > used || st.RawBytes != 0 {
		t.Errorf("status %+v, du says %d", st, used)
	}
}

func BenchmarkCompressGoTree(b *testing.B) {
	if os.Getenv("UNDOLOG_BENCH_TREE") == "" {
		b.Skip("set UNDOLOG_BENCH_TREE=1 to copy and pack the Go source tree")
	}
	src := goSource(b)
	for b.Loop() {
		b.StopTimer()
		l, work := testLog(b, nil)
		if o, err := exec.Command("cp", "-a", src, filepath.Join(work, "src")).CombinedOutput(); err != nil {
			b.Fatalf("%v %s", err, o)
		}
		a := newAdopter(b, l)
		a.removeAll("src")
		a.commit()
		b.StartTimer()
		res, err := l.GC(context.Background(), GCOptions{CompressAll: true})
		b.StopTimer()
		if err != nil {
			b.Fatal(err)
		}
		o, _ := exec.Command("du", "-sB1", "--exclude=reserve", l.o.Dir).Output()
		b.Logf("stored %d -> %d, du %s", res.BytesBefore, res.BytesAfter, o)
		b.StartTimer()
		start := time.Now()
		if _, err := l.Undo(context.Background(), UndoOptions{}); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "undo-ms")
	}
}
