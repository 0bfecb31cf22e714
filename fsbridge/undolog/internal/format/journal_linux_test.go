package format

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// memJournal gives a descriptor of a file with the given bytes.
func memJournal(t testing.TB, b []byte) int {
	t.Helper()
	fd, err := unix.MemfdCreate("journal", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := hostfs.PwriteFull(fd, b, 0); err != nil {
		t.Fatal(err)
	}
	return fd
}

// sampleJournal has every record.
func sampleJournal() []byte {
	step := Step{ID: 7, Seq: 9, StartedAt: time.Unix(1e9, 5).UTC(), Type: TypeCommand, Command: "rm -rf \xff", Argv: []string{"rm"}, Dir: "/w", Tick: 2}
	b, err := step.frame([]byte(JournalMagic))
	if err != nil {
		panic(err)
	}
	dir := Meta{Mode: unix.S_IFDIR | 0o3755, Mtime: -1, Nlink: 3}
	file := Meta{Mode: unix.S_IFREG | 0o4755, UID: 1000, GID: 1, Rdev: 3, Size: 1 << 40, Mtime: 123456789, Nlink: 2}
	for _, o := range []Object{
		{Obj: 1, ID: hostfs.ID{Dev: 1, Ino: 2}, Meta: dir},
		{Obj: 2, ID: hostfs.ID{Dev: 1, Ino: 3}, Parent: 1, Name: "d\n\xff", Meta: dir},
		{Obj: 3, ID: hostfs.ID{Dev: 1, Ino: 4}, Parent: 2, Name: "f", Meta: file},
		{Obj: 4, ID: hostfs.ID{Dev: 1, Ino: 5}, RetainedSeq: 3, RetainedObj: 8, Meta: file},
		{Obj: 5, ID: hostfs.ID{Dev: 1, Ino: 6}, Created: true, Parent: 2, Name: "new"},
		{Obj: 6, ID: hostfs.ID{Dev: 1, Ino: 1<<64 - 1}, Parent: 1, Name: "l", Meta: Meta{Mode: unix.S_IFLNK | 0o777, Target: "../\x00x", Size: 5}},
	} {
		b = o.frame(b)
	}
	x := Xattrs{Obj: 3, Xattrs: []hostfs.Xattr{{Name: "user.a", Value: []byte("v\x00")}, {Name: "user.b", Value: []byte{}}}}
	b = x.frame(b)
	for _, r := range []Binding{{1, "gone", 0}, {2, "f", 3}, {5, "moved", 0}, {1, "forgotten", 0}} {
		b = r.frame(b)
	}
	b = frameUnbind(b, 1, "forgotten")
	for _, c := range []struct {
		r    Content
		data string
	}{
		{Content{Obj: 3, Off: 0, Len: 5, Enc: EncRaw}, "hello"},
		{Content{Obj: 3, Off: 5, Len: 1 << 30, Enc: EncHole}, ""},
		{Content{Obj: 3, Off: 1 << 31, Len: 100, Enc: EncZstd}, "not zstd"},
		{Content{Obj: 4, Off: 0, Len: 1 << 40, Enc: EncClone, Blob: 1}, ""},
	} {
		b = c.r.frame(b, []byte(c.data))
	}
	b = frameObj(b, TypeRetain, 3)
	b = frameObj(b, TypeFreed, 6)
	b = frameObj(b, TypeGone, 6)
	return frame(b, TypeUnprotected, nil)
}

// dump describes records, for the golden file.
func dump(r *RecordSet) string {
	var b strings.Builder
	fmt.Fprintf(&b, "step %+v\n", r.Step)
	for _, id := range r.Order {
		fmt.Fprintf(&b, "object %+v\n", *r.Objects[id])
	}
	for _, id := range r.Order {
		if x, ok := r.Xattrs[id]; ok {
			fmt.Fprintf(&b, "xattrs %d %q\n", id, x)
		}
		for _, c := range r.Contents[id] {
			fmt.Fprintf(&b, "content %+v\n", c)
		}
		if r.Retained[id] || r.Freed[id] || r.Gone[id] {
			fmt.Fprintf(&b, "object %d retained %v freed %v gone %v\n", id, r.Retained[id], r.Freed[id], r.Gone[id])
		}
	}
	for _, k := range r.Keys() {
		fmt.Fprintf(&b, "binding %d %q -> %d\n", k.Dir, k.Name, r.Bindings[k])
	}
	fmt.Fprintf(&b, "unprotected %v, torn %v, %d bytes\n", r.Unprotected, r.Torn, r.Size)
	return b.String()
}

// TestGoldenJournal reads a journal that version 1 of the format wrote: if it
// fails, formatVersion must grow.
func TestGoldenJournal(t *testing.T) {
	golden, text := filepath.Join("testdata", "v1", "journal"), filepath.Join("testdata", "v1", "journal.txt")
	if *update {
		r, err := ReadJournalFD(memJournal(t, sampleJournal()))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(golden), 0o755), os.WriteFile(golden, sampleJournal(), 0o644), os.WriteFile(text, []byte(dump(r)), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, sampleJournal()) {
		t.Error("the same records are written differently now")
	}
	r, err := ReadJournalFD(memJournal(t, b))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := dump(r); got != string(want) {
		t.Errorf("read as\n%s\nwant\n%s", got, want)
	}
}

// TestUL02_TornTail: of a journal that is cut at any byte, or damaged at any
// byte, only whole records before that place are used.
func TestUL02_TornTail(t *testing.T) {
	good := sampleJournal()
	var ends []int64
	err := ScanJournal(memJournal(t, good), func(_ RecordType, p []byte, off int64) error {
		ends = append(ends, off+int64(len(p)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	firstEnd := ends[0]
	for n := range len(good) {
		r, err := ReadJournalFD(memJournal(t, good[:n]))
		i, whole := slices.BinarySearch(ends, int64(n))
		switch {
		case int64(n) < firstEnd:
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("cut at %d: %v", n, err)
			}
		case err != nil:
			t.Fatalf("cut at %d: %v", n, err)
		case whole != (r.Torn == nil):
			t.Fatalf("cut at %d: torn %v", n, r.Torn)
		case !whole && r.Size != ends[i-1]:
			t.Fatalf("cut at %d: %d good bytes", n, r.Size)
		}
		bad := slices.Clone(good)
		bad[n] ^= 1
		if r, err = ReadJournalFD(memJournal(t, bad)); err == nil && r.Torn == nil {
			t.Fatalf("byte %d flipped and not noticed", n)
		}
	}
}

func TestJournalAppendAndRead(t *testing.T) {
	dir, err := hostfs.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	w, err := CreateJournal(dir.FD(), &Step{ID: 1, Seq: 1, Type: TypeAPI}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	root := Object{Obj: RootObj, Meta: Meta{Mode: unix.S_IFDIR}}
	if err := errors.Join(w.Append(new(Batch).Object(&root)), w.Append(new(Batch)), w.Sync(), w.Sync()); err != nil {
		t.Fatal(err)
	}
	r, err := ReadJournal(dir.FD())
	if err != nil || r.Torn != nil || len(r.Objects) != 1 || r.Step.ID != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := CreateJournal(dir.FD(), &Step{ID: 1}, false); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a second journal: %v", err)
	}
}

// TestInconsistentRecords: well framed, but no journal of ours.
func TestInconsistentRecords(t *testing.T) {
	head, err := (&Step{ID: 1, Seq: 1}).frame([]byte(JournalMagic))
	if err != nil {
		t.Fatal(err)
	}
	dir := Meta{Mode: unix.S_IFDIR}
	root := Object{Obj: RootObj, Meta: dir}
	rooted := root.frame(slices.Clone(head))
	object := func(b []byte, o Object) []byte { return o.frame(slices.Clone(b)) }
	binding := func(b []byte, r Binding) []byte { return r.frame(slices.Clone(b)) }
	content := func(r Content, data string) []byte { return r.frame(slices.Clone(rooted), []byte(data)) }
	for name, b := range map[string][]byte{
		"no root":             object(head, Object{Obj: 2, Parent: 1, Name: "x", Meta: dir}),
		"root is a file":      object(head, Object{Obj: 1, Meta: Meta{Mode: unix.S_IFREG}}),
		"root has a parent":   object(head, Object{Obj: 1, Parent: 1, Name: "x", Meta: dir}),
		"unknown parent":      object(rooted, Object{Obj: 2, Parent: 3, Name: "x", Meta: dir}),
		"its own parent":      object(rooted, Object{Obj: 2, Parent: 2, Name: "x", Meta: dir}),
		"name is ..":          object(rooted, Object{Obj: 2, Parent: 1, Name: "..", Meta: dir}),
		"name has a slash":    object(rooted, Object{Obj: 2, Parent: 1, Name: "a/b", Meta: dir}),
		"name has a NUL":      object(rooted, Object{Obj: 2, Parent: 1, Name: "a\x00", Meta: dir}),
		"name too long":       object(rooted, Object{Obj: 2, Parent: 1, Name: strings.Repeat("n", 256), Meta: dir}),
		"huge object number":  object(rooted, Object{Obj: MaxObjects + 1, Parent: 1, Name: "n", Meta: dir}),
		"negative size":       object(rooted, Object{Obj: 2, Parent: 1, Name: "n", Meta: Meta{Size: -1}}),
		"binding in nothing":  binding(rooted, Binding{5, "x", 0}),
		"binding to nothing":  binding(rooted, Binding{1, "x", 5}),
		"binding to the root": binding(rooted, Binding{1, "x", 1}),
		"content of nothing":  content(Content{Obj: 9, Len: 1, Enc: EncHole}, ""),
		"content overflows":   content(Content{Obj: 1, Off: 1 << 62, Len: 1<<63 - 1, Enc: EncHole}, ""),
		"content too short":   content(Content{Obj: 1, Len: 3, Enc: EncRaw}, "ab"),
		"content of 1 TiB":    content(Content{Obj: 1, Len: 1 << 40, Enc: EncZstd}, "ab"),
		"unknown encoding":    content(Content{Obj: 1, Len: 1, Enc: 77}, ""),
		"unknown type":        frame(slices.Clone(rooted), 99, nil),
		"second step":         frame(slices.Clone(rooted), TypeStep, func(b []byte) []byte { return append(b, "{}"...) }),
		"retain of nothing":   frameObj(slices.Clone(rooted), TypeRetain, 4),
	} {
		if r, err := ReadJournalFD(memJournal(t, b)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func FuzzJournal(f *testing.F) {
	f.Add(sampleJournal())
	f.Add([]byte(JournalMagic))
	f.Add(append([]byte(JournalMagic), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ReadJournalFD(memJournal(t, b))
		if err != nil {
			return
		}
		again, err := ReadJournalFD(memJournal(t, b[:r.Size]))
		if err != nil || again.Torn != nil {
			t.Fatalf("the good part is bad: %v, %v", err, again)
		}
		again.Torn = r.Torn
		if !reflect.DeepEqual(r, again) {
			t.Fatal("the good part reads differently")
		}
		for _, k := range r.Keys() {
			if hostfs.CheckName(k.Name) != nil || r.Objects[k.Dir] == nil {
				t.Fatalf("binding %q", k.Name)
			}
		}
		for _, o := range r.Objects {
			for p, n := o, 0; p.Parent != NoObj; p, n = r.Objects[p.Parent], n+1 {
				if n > len(r.Objects) {
					t.Fatal("parents in a circle")
				}
			}
		}
	})
}
