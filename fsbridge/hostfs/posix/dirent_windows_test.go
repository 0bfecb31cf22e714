package posix

import (
	"encoding/binary"
	"fmt"
	"testing"
	"unicode/utf16"

	"golang.org/x/sys/windows"
)

// listed is a list of entries in a layout.
func listed(l layout, names ...string) (all []byte) {
	for i, name := range names {
		units := utf16.Encode([]rune(name))
		b := make([]byte, int(l.name)+2*len(units), (int(l.name)+2*len(units)+7)&^7)
		le := binary.LittleEndian
		if i < len(names)-1 {
			le.PutUint32(b, uint32(cap(b)))
		}
		le.PutUint32(b[l.attributes:], []uint32{windows.FILE_ATTRIBUTE_DIRECTORY, 0, windows.FILE_ATTRIBUTE_REPARSE_POINT}[i%3])
		le.PutUint32(b[l.nameLength:], uint32(2*len(units)))
		le.PutUint32(b[l.tag:], windows.IO_REPARSE_TAG_SYMLINK)
		le.PutUint64(b[l.id:], uint64(i+1))
		for j, u := range units {
			le.PutUint16(b[int(l.name)+2*j:], u)
		}
		all = append(all, b[:cap(b)]...)
	}
	return all
}

func TestLayouts(t *testing.T) {
	for _, l := range []layout{extended, both} {
		b := listed(l, "dir", "file", "link", "..", ".", "Ä\U0001f600")
		got, err := l.parse(b, []entry{{name: "."}, {name: ".."}})
		want := "[{. 0 0} {.. 4 0} {dir 1 4} {file 2 8} {link 3 10} {Ä\U0001f600 6 10}]"
		if fmt.Sprint(got) != want || err != nil {
			t.Errorf("%v, %v, not %s", got, err, want)
		}
		for n := range b {
			if got, err := l.parse(b[:n], make([]entry, 2)); err == nil && len(got) == 6 && n < len(b)-8 {
				t.Errorf("%d bytes of %d are all", n, len(b))
			}
		}
	}
	if _, err := extended.parse(nil, nil); err != EIO {
		t.Error(err)
	}
}

func TestInodeNumbers(t *testing.T) {
	if n := (inode{id: [16]byte{1, 2}}).number(); n != 0x201 {
		t.Errorf("an id of 64 bits: %#x", n)
	}
	seen := map[uint64]inode{}
	for high := range byte(50) {
		for low := range byte(50) {
			i := inode{id: [16]byte{low, 8: high}}
			if o, there := seen[i.number()]; there {
				t.Fatalf("%v and %v", i, o)
			}
			seen[i.number()] = i
		}
	}
}

// A name is found as the directory has it, and what cannot be a name finds nothing: no mask of names, either.
func TestSpelled(t *testing.T) {
	f := newFolder(t)
	f.write("Name", "")
	f.write("Ärger", "")
	f.mkdir("Dir")
	for name, want := range map[string]string{
		"Name": "Name", "NAME": "Name", "name": "Name", "dir": "Dir", "ärger": "Ärger", "missing": "", "con": "", "N*": "", "Nam?": "", "": "", ".": "", `Dir\x`: "",
	} {
		if disk, known := Spelled(f.fd, name); disk != want || known != (want != "") {
			t.Errorf("%q: %q, %v", name, disk, known)
		}
	}
	if disk, known := Spelled(f.open("Name", O_RDONLY), "x"); known {
		t.Errorf("in a file there is %q", disk)
	}
}
