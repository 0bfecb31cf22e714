package format

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// roomyJournal makes a journal that may have room, with its root object.
func roomyJournal(t *testing.T) (*hostfs.Root, *Writer) {
	t.Helper()
	dir, err := hostfs.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	w, err := CreateJournal(dir.FD(), &Step{ID: 1, Seq: 1, Type: TypeAPI}, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	w.AllowRoom()
	root := Object{Obj: RootObj, Meta: Meta{Mode: unix.S_IFDIR}}
	if err := w.Append(new(Batch).Object(&root)); err != nil {
		t.Fatal(err)
	}
	return dir, w
}

// TestJournalRoom appends until there is room, through several of it, and what
// is too large for it in between. The file can be read at any time, as after a
// kill, and ends with its last record when the room is given back.
func TestJournalRoom(t *testing.T) {
	dir, w := roomyJournal(t)
	want, roomy := 1, 0
	check := func() {
		t.Helper()
		if next := w.room.next; next != nil {
			next <- <-next
		}
		r, err := ReadJournal(dir.FD())
		if err != nil {
			t.Fatal(err)
		}
		if r.Torn != nil || len(r.Bindings)+1 != want || r.Size != w.Size() {
			t.Fatalf("%d of %d records, %d of %d bytes, torn %v", len(r.Bindings)+1, want, r.Size, w.Size(), r.Torn)
		}
		if st, err := hostfs.StatAt(dir.FD(), "journal"); err != nil || st.Size < r.Size {
			t.Fatal(err)
		} else if st.Size > r.Size {
			roomy++
		}
	}
	for i := range 9000 {
		name := fmt.Sprintf("name-%060d", i)
		var batch Batch
		for n, at := range map[int64]int{4 << 10: i % 10, 3 * smallAppend: i % 700} {
			if at == 5 {
				c := Content{Obj: RootObj, Off: int64(i)<<20 + n, Len: n, Enc: EncRaw}
				batch.Content(&c, bytes.Repeat([]byte{byte(i)}, int(n)))
			}
		}
		if err := w.Append(batch.Binding(RootObj, name, NoObj)); err != nil {
			t.Fatal(err)
		}
		want++
		if i%500 == 99 {
			check()
		}
	}
	if roomy < 10 {
		t.Errorf("there was room %d times", roomy)
	}
	if err := w.Trim(); err != nil {
		t.Fatal(err)
	}
	check()
	if st, err := hostfs.StatAt(dir.FD(), "journal"); err != nil || st.Size != w.Size() {
		t.Errorf("%d bytes, of which %d are records: %v", st.Size, w.Size(), err)
	}
}

// TestJournalRoomLost cuts the file below its mapping: that is an error of the
// next append, as if the disk had failed.
func TestJournalRoomLost(t *testing.T) {
	dir, w := roomyJournal(t)
	b := new(Batch).Binding(RootObj, "name", NoObj)
	for w.room.here.mem == nil {
		if err := w.Append(b); err != nil {
			t.Fatal(err)
		}
		if w.room.never {
			t.Skip("fallocate and mmap do not work on the file system of the temporary directory: set TMPDIR to a folder on ext4, xfs, btrfs or tmpfs")
		}
	}
	if err := unix.Truncate(fmt.Sprintf("/proc/self/fd/%d/journal", dir.FD()), 0); err != nil {
		t.Fatal(err)
	}
	if err := w.Append(b); !errors.Is(err, unix.EIO) {
		t.Errorf("append to a mapping of nothing: %v", err)
	}
}

// TestJournalZeros: only zeros up to the end are room.
func TestJournalZeros(t *testing.T) {
	good := sampleJournal()
	r, err := ReadJournalFD(memJournal(t, append(good[:len(good):len(good)], make([]byte, 1<<20)...)))
	if err != nil || r.Torn != nil || r.Size != int64(len(good)) {
		t.Errorf("%d of %d bytes, torn %v: %v", r.Size, len(good), r.Torn, err)
	}
	bad := append(good[:len(good):len(good)], make([]byte, 1<<20)...)
	bad[len(bad)-1] = 1
	if r, err = ReadJournalFD(memJournal(t, bad)); err != nil || r.Torn == nil || r.Size != int64(len(good)) {
		t.Errorf("%d of %d bytes, torn %v: %v", r.Size, len(good), r.Torn, err)
	}
}

// bytesRead is how many bytes this process has read so far.
func bytesRead(t *testing.T) (n int64) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(b), "rchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestW18HugeJournal: a journal that claims 64 GiB, of which there is nothing, is not read through;
// nor are zeros that are there, beyond what room there can be.
func TestW18HugeJournal(t *testing.T) {
	dir, w := roomyJournal(t)
	if err := w.Trim(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir.Path(), "journal")
	for _, c := range []struct {
		zeros int64 // that are written, before the hole
		torn  bool
	}{{0, false}, {1 << 20, false}, {16 << 20, true}} {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(make([]byte, c.zeros), w.Size()); err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(64 << 30); err != nil {
			t.Fatal(err)
		}
		before := bytesRead(t)
		r, err := ReadJournal(dir.FD())
		if err != nil || r.Size != w.Size() || (r.Torn != nil) != c.torn {
			t.Errorf("%+v: %+v, %v", c, r, err)
		}
		if n := bytesRead(t) - before; n > 8<<20 {
			t.Errorf("%+v: %d bytes were read", c, n)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
