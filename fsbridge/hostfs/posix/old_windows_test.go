package posix

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/windows"
)

// What is done where a file system does not know the calls of today: FAT, and old servers.

func (f folder) ntOpen(name string, access uint32) windows.Handle {
	f.Helper()
	h, err := ntOpen(f.handle(), name, opening{access: access})
	f.must(err)
	return h
}

func TestRemoveSlowly(t *testing.T) {
	f := newFolder(t)
	f.write("file", "content")
	fd := f.open("file", O_RDONLY)
	f.must(Chmod(fd, 0o444))
	h := f.ntOpen("file", windows.DELETE)
	l, err := traitsOf(h)
	f.must(err)
	f.must(removeSlowly(f.handle(), "file", h, l))
	ntClose(h)
	f.must(Mkdirat(f.fd, "file", 0o755)) // the name is free
	if got := f.content(fd); got != "content" {
		t.Errorf("%q", got)
	}
	f.must(Close(fd))
	if got := f.tree(); got != "file/" {
		t.Error(got)
	}
}

// What cannot be removed keeps its name.
func TestRemoveSlowlyOfWhatStays(t *testing.T) {
	f := newFolder(t)
	f.mkdir("full", `full\x`)
	h := f.ntOpen("full", windows.DELETE)
	l, err := traitsOf(h)
	f.must(err)
	if err := from(removeSlowly(f.handle(), "full", h, l)); err != ENOTEMPTY {
		t.Error(err)
	}
	ntClose(h)
	if got := f.tree(); got != "full/ full/x/" {
		t.Error(got)
	}
}

func TestReplaceSlowly(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     error
		after    string
	}{
		{"a", "b", nil, "b:a d/ full/ full/x/"},
		{"full", "d", nil, "a:a b:b d/ d/x/"},
		{"d", "full", ENOTEMPTY, "a:a b:b d/ full/ full/x/"},
		{"d", "missing", EACCES, "a:a b:b d/ full/ full/x/"},
		{"a", "missing", EACCES, "a:a b:b d/ full/ full/x/"},
	} {
		f := newFolder(t)
		f.write("a", "a")
		f.write("b", "b")
		f.mkdir("d", "full", `full\x`)
		b := f.open("b", O_RDONLY)
		r := renaming{process: here, oldName: c.from, newName: c.to, replace: true}
		err := r.with(f.fd, f.fd, func(using) error { return r.replaceSlowly(windows.STATUS_ACCESS_DENIED) })
		if err != c.want {
			t.Errorf("%s to %s: %v, not %v", c.from, c.to, err, c.want)
		}
		if got := f.content(b); got != "b" {
			t.Errorf("%q", got)
		}
		f.must(Close(b))
		if got := f.tree(); got != c.after {
			t.Errorf("%s to %s: %s", c.from, c.to, got)
		}
	}
}

func TestOldNumbersAndListings(t *testing.T) {
	f := newFolder(t)
	f.write("file", "content")
	f.mkdir("dir")
	h := f.ntOpen("file", 0)
	defer ntClose(h)
	now, err := inodeOf(h)
	f.must(err)
	old, err := oldInodeOf(h)
	f.must(err)
	if old.id != now.id || uint32(old.volume) != uint32(now.volume) {
		t.Errorf("%v, not %v", old, now)
	}
	for _, l := range []layout{extended, both} {
		d := f.ntOpen("", windows.FILE_LIST_DIRECTORY)
		entries, err := listIn(d, l, make([]entry, 2))
		ntClose(d)
		f.must(err)
		entries = entries[2:]
		slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
		want := []entry{{"dir", f.statAt("dir").Ino, DT_DIR}, {"file", f.statAt("file").Ino, DT_REG}}
		if !slices.Equal(entries, want) {
			t.Errorf("%v, not %v", entries, want)
		}
	}
}

// Somebody has something open below a directory, which nobody tells on Windows otherwise than by denying the rename.
func TestWhoDeniesARename(t *testing.T) {
	f := newFolder(t)
	f.mkdir("a")
	r := renaming{process: here, oldName: "a", newName: "b"}
	f.must(r.with(f.fd, f.fd, func(using) error {
		if err := r.blamed(windows.STATUS_ACCESS_DENIED); err != EBUSY {
			t.Error(err)
		}
		if err := r.blamed(windows.STATUS_DISK_FULL); err != windows.STATUS_DISK_FULL {
			t.Error(err)
		}
		return r.blamed(nil)
	}))
}

// What one call tells on NTFS is what the calls of other file systems tell there, and it is told of all that was opened near a plain file.
func TestFactsAreWhatOthersTell(t *testing.T) {
	f := newFolder(t)
	f.write("file", "content")
	f.write("read-only", "x")
	f.must(Chmod(f.open("read-only", O_RDONLY), 0o444))
	f.mkdir("dir", `dir\in`)
	f.write("linked", "two names")
	f.must(Linkat(f.fd, "linked", f.fd, "second"))
	dir := f.open("dir", O_PATH)
	for name, of := range map[string]int{"file": f.fd, "read-only": f.fd, "dir": f.fd, "linked": f.fd, "second": f.fd, "in": dir, "": dir} {
		f.must(here.withFile(of, func(u using) error {
			if name, _, _, err := fileSystem(u.handle); err != nil || u.plain != (name == ntfs) {
				t.Errorf("%s: plain is %v, %v", name, u.plain, err)
			}
			h, err := ntOpen(u.handle, name, opening{})
			f.must(err)
			defer ntClose(h)
			if _, ok := factsOf(h, u.file); ok != u.plain {
				t.Errorf("%q: facts are told: %v", name, ok)
			}
			var told, others Stat_t
			f.must(stat(h, u.file, &told))
			f.must(stat(h, nil, &others))
			if told != others {
				t.Errorf("%q: %+v, not %+v", name, told, others)
			}
			near, err := look(h, u.file)
			f.must(err)
			alone, err := look(h, nil)
			f.must(err)
			if near != alone {
				t.Errorf("%q: %+v, not %+v", name, near, alone)
			}
			return nil
		}))
	}
	var st Stat_t
	fd := f.open("file", O_RDONLY)
	f.must(Unlinkat(f.fd, "file", false))
	f.must(Fstat(fd, &st))
	if st.Nlink != 0 {
		t.Errorf("a file that has been removed has %d names", st.Nlink)
	}
}

// The times of a share are another machine's, whatever file system is behind it.
func TestMagic(t *testing.T) {
	for s, want := range map[system]int64{
		{ntfs, false}: magicNTFS, {"ReFS", false}: magicReFS, {"FAT32", false}: magicFAT, {"exFAT", false}: magicExFAT, {"UDF", false}: 0,
		{ntfs, true}: SMB2_SUPER_MAGIC, {"UDF", true}: SMB2_SUPER_MAGIC,
	} {
		if got := s.magic(); got != want {
			t.Errorf("%+v: %#x, not %#x", s, got, want)
		}
	}
	f := newFolder(t)
	var st Statfs_t
	f.must(Fstatfs(f.fd, &st))
	if st.Type == SMB2_SUPER_MAGIC {
		t.Error("the directory for temporary files is taken for a share")
	}
}
