package posix

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/windows"
)

func TestRenameErrors(t *testing.T) {
	for _, c := range []struct {
		from, to string
		flags    uint
		want     error
		left     string // of the folder, with contents of files
	}{
		{"a", "new", 0, nil, "b:b d/ full/ full/x:x new:a"},
		{"a", "b", 0, nil, "b:a d/ full/ full/x:x"},
		{"a", "A", 0, nil, "A:a b:b d/ full/ full/x:x"},
		{"a", "A", RENAME_NOREPLACE, nil, "A:a b:b d/ full/ full/x:x"},
		{"a", "a", 0, nil, "a:a b:b d/ full/ full/x:x"},
		{"d", "new", RENAME_NOREPLACE, nil, "a:a b:b full/ full/x:x new/"},
		{"full", "d", 0, nil, "a:a b:b d/ d/x:x"},
		{"full", "FULL", 0, nil, "FULL/ FULL/x:x a:a b:b d/"},
		{"a", "b", RENAME_NOREPLACE, EEXIST, ""},
		{"a", "d", RENAME_NOREPLACE, EEXIST, ""},
		{"d", "full", RENAME_NOREPLACE, EEXIST, ""},
		{"a", "b", RENAME_EXCHANGE, EINVAL, ""},
		{"a", "d", 0, EISDIR, ""},
		{"d", "a", 0, ENOTDIR, ""},
		{"d", "full", 0, ENOTEMPTY, ""},
		{"missing", "a", 0, ENOENT, ""},
		{"a", "nul", 0, EINVAL, ""},
		{"a", "b.", 0, EINVAL, ""},
		{"a", "b:c", 0, EINVAL, ""},
		{"a", `d\b`, 0, EINVAL, ""},
		{".", "x", 0, EBUSY, ""},
		{"a", "..", 0, EBUSY, ""},
	} {
		t.Run(fmt.Sprintf("%s to %s %d", c.from, c.to, c.flags), func(t *testing.T) {
			f := newFolder(t)
			f.write("a", "a")
			f.write("b", "b")
			f.mkdir("d", "full")
			f.write(`full\x`, "x")
			before := f.tree()
			if c.from != c.to && strings.EqualFold(c.from, c.to) && !caseCanChange(f) {
				t.Skip("the case of a name cannot be changed by a rename here (wine)")
			}
			if err := Renameat(f.fd, c.from, f.fd, c.to, c.flags); err != c.want {
				t.Errorf("%v, not %v", err, c.want)
			}
			if c.want != nil {
				c.left = before
			}
			if got := f.tree(); got != c.left {
				t.Errorf("%q, not %q", got, c.left)
			}
		})
	}
}

// caseCanChange tries it by the system's own call, and leaves nothing.
func caseCanChange(f folder) bool {
	f.write("probe", "")
	f.must(os.Rename(f.path+`\probe`, f.path+`\Probe`))
	can := slices.Contains(f.names(f.open(".", O_RDONLY), 1000), "Probe")
	f.must(os.Remove(f.path + `\probe`))
	return can
}

// tree lists all files with their contents, and directories with a slash.
func (f folder) tree() string {
	f.Helper()
	var all []string
	f.must(filepath.WalkDir(f.path, func(path string, d os.DirEntry, err error) error {
		name := strings.ReplaceAll(strings.TrimPrefix(path, f.path+`\`), `\`, "/")
		switch {
		case err != nil:
			return err
		case path == f.path:
		case d.IsDir():
			all = append(all, name+"/")
		default:
			all = append(all, name+":"+f.read(name))
		}
		return nil
	}))
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestRenameIntoItself(t *testing.T) {
	f := newFolder(t)
	f.mkdir("a", `a\b`)
	a, b := f.open("a", O_PATH), f.ok(OpenBeneath(f.fd, "a/b", O_PATH))
	for _, into := range []int{a, b} {
		if err := Renameat(f.fd, "a", into, "c", 0); err != EINVAL {
			t.Error(err)
		}
	}
	if got := f.tree(); got != "a/ a/b/" {
		t.Error(got)
	}
	f.must(Close(b))
}

// Two names of one inode: nothing is done, as on Linux.
func TestRenameOfOneInodeToItself(t *testing.T) {
	f := newFolder(t)
	f.write("a", "x")
	f.must(Linkat(f.fd, "a", f.fd, "b"))
	f.must(Renameat(f.fd, "a", f.fd, "b", 0))
	if got := f.tree(); got != "a:x b:x" {
		t.Error(got)
	}
	if err := Renameat(f.fd, "a", f.fd, "b", RENAME_NOREPLACE); err != EEXIST {
		t.Error(err)
	}
}

// What is open goes on with the file, whatever its name.
func TestRenameOfOpenFiles(t *testing.T) {
	f := newFolder(t)
	f.mkdir("d")
	f.write("a", "a")
	f.write("b", "b")
	d := f.open("d", O_RDONLY)
	a, path, b := f.open("a", O_RDWR), f.open("a", O_PATH), f.open("b", O_RDWR)
	f.ok(Write(a, []byte("A")))
	f.must(Renameat(f.fd, "a", d, "c", 0))
	f.write("a", "another")
	f.ok(Write(a, []byte("BC")))
	if got := f.read(`d\c`); got != "ABC" {
		t.Errorf("%q", got)
	}
	again := f.ok(Reopen(path, O_RDONLY))
	if got := f.content(again); got != "ABC" {
		t.Errorf("reopened: %q", got)
	}
	f.must(Close(again))
	// Replaced while it is open.
	f.must(Renameat(d, "c", f.fd, "b", 0))
	if got := f.tree(); got != "a:another b:ABC d/" {
		t.Error(got)
	}
	f.ok(Pwrite(b, []byte("old"), 0))
	if got := f.content(b); got != "old" {
		t.Errorf("what was replaced: %q", got)
	}
	if st := f.stat(b); st.Nlink != 0 {
		t.Errorf("what was replaced has %d names", st.Nlink)
	}
	f.must(Flinkat(path, d, "more"))
	if st := f.stat(a); st.Nlink != 2 {
		t.Errorf("%d names", st.Nlink)
	}
}

// A directory with descriptors below gets another name. All of them keep their numbers, positions and locks: where the system lets a
// directory be renamed with something open in it, and where all must be closed (as wine lets it be, that is done without being asked).
func TestRenameOfADirectoryWithOpenChildren(t *testing.T) {
	for name, rename := range map[string]func(oldDir int, oldName string, newDir int, newName string) error{
		"as it is here": func(oldDir int, oldName string, newDir int, newName string) error {
			return Renameat(oldDir, oldName, newDir, newName, 0)
		},
		"closed": renameClosed,
	} {
		t.Run(name, func(t *testing.T) { renameWithOpenChildren(newFolder(t), rename) })
	}
}

// renameClosed is what a rename of a directory does after Windows has refused it.
func renameClosed(oldDir int, oldName string, newDir int, newName string) error {
	here.names.Lock()
	defer here.names.Unlock()
	r := renaming{process: here, oldName: oldName, newName: newName, replace: true}
	return r.with(oldDir, newDir, func(using) error {
		dir, err := pathOnVolume(r.h)
		if err != nil {
			return err
		}
		inside := r.inside(dir)
		defer release(inside)
		return r.closed(inside)
	})
}

func renameWithOpenChildren(f folder, rename func(int, string, int, string) error) {
	f.mkdir("a", `a\b`, `a\b\deep`, "into", "ab")
	for _, name := range []string{`a\b\file`, `a\b\deep\locked`, `ab\beside`} {
		f.write(name, "content")
	}
	into := f.open("into", O_PATH)
	a, b, deep, listed := f.beneath("a", O_PATH), f.beneath("a/b", O_RDONLY), f.beneath("a/b/deep", O_PATH), f.beneath("a/b", O_RDONLY)
	file, path, beside := f.beneath("a/b/file", O_RDWR), f.beneath("a/b/file", O_PATH), f.beneath("ab/beside", O_RDWR)
	locked := f.beneath("a/b/deep/locked", O_RDWR)
	removed := f.ok(Openat(b, "removed", O_RDWR|O_CREAT, 0o644))
	defer func() { f.must(Close(removed)) }()
	f.ok(Write(removed, []byte("gone")))
	f.must(Unlinkat(b, "removed", false))
	f.ok(Write(file, []byte("C")))
	f.must(Flock(locked, LOCK_EX))
	f.must(SetLock(locked, Lock{Type: F_WRLCK, Start: 10, Length: 5}))
	first := f.ok(Getdents(listed, make([]byte, 60))) // "." and ".."
	numbers := []Stat_t{f.stat(a), f.stat(b), f.stat(deep), f.stat(file), f.stat(locked)}

	f.must(rename(f.fd, "a", into, "c"))
	f.mkdir("a", `a\b`)
	f.write(`a\b\file`, "another")

	for i, fd := range []int{a, b, deep, file, locked} {
		if f.stat(fd).Ino != numbers[i].Ino {
			f.Errorf("descriptor %d is another inode", i)
		}
	}
	f.ok(Write(file, []byte("O")))
	f.must(Mkdirat(deep, "made", 0o755))
	f.must(Close(f.ok(Openat(b, "new", O_WRONLY|O_CREAT|O_EXCL, 0o644))))
	f.must(Close(f.ok(Reopen(path, O_RDWR))))
	if rest := f.names(listed, 1000); first != 48 || !slices.Equal(rest, []string{"deep", "file"}) {
		f.Errorf("the listing goes on with %q after %d bytes", rest, first)
	}
	if got := f.content(removed) + f.content(beside); got != "gonecontent" {
		f.Errorf("what is not below: %q", got)
	}
	if got := f.tree(); got != "a/ a/b/ a/b/file:another ab/ ab/beside:content into/ into/c/ into/c/b/ into/c/b/deep/ into/c/b/deep/locked:content "+
		"into/c/b/deep/made/ into/c/b/file:COntent into/c/b/new:" {
		f.Error(got)
	}
	other := f.beneath("into/c/b/deep/locked", O_RDWR)
	if err := Flock(other, LOCK_SH|LOCK_NB); err != EAGAIN {
		f.Errorf("the lock is free: %v", err)
	}
	if l, err := GetLock(other, Lock{Type: F_RDLCK, Start: 12, Length: 1}); err != nil || l.Type != F_WRLCK {
		f.Errorf("%+v, %v", l, err)
	}
	f.must(rename(into, "c", f.fd, "C")) // and once more
	f.must(Close(f.ok(Openat(deep, "again", O_WRONLY|O_CREAT|O_EXCL, 0o644))))
	if _, err := os.Stat(f.path + `\C\b\deep\again`); err != nil {
		f.Error(err)
	}
}

// beneath opens and closes at the test's end.
func (f folder) beneath(path string, flags int) int {
	f.Helper()
	fd := f.ok(OpenBeneath(f.fd, path, flags))
	f.Cleanup(func() { _ = Close(fd) })
	return fd
}

// What is below is open again also if the rename fails.
func TestDirectoryIsNotRenamed(t *testing.T) {
	f := newFolder(t)
	f.mkdir("a", "full", `full\x`)
	f.write(`a\file`, "content")
	a, file := f.open("a", O_PATH), f.beneath("a/file", O_RDWR)
	if err := renameClosed(f.fd, "a", f.fd, "full"); err != ENOTEMPTY {
		t.Error(err)
	}
	if got := f.content(file); got != "content" {
		t.Errorf("%q", got)
	}
	f.must(Close(f.ok(Openat(a, "file", O_RDONLY, 0))))
}

// Somebody takes the lock while the file is closed: the descriptor must not be believed to have it.
func TestALockThatARenameHasLost(t *testing.T) {
	f := newFolder(t)
	f.write("file", "content")
	fd, other := f.open("file", O_RDWR), f.open("file", O_RDWR)
	u, err := here.use(fd)
	f.must(err)
	f.must(Flock(fd, LOCK_EX))
	u.gate.RUnlock()
	u.gate.Lock()
	u.leave()
	f.must(Flock(other, LOCK_EX|LOCK_NB))
	u.enter(f.handle(), "file")
	u.gate.Unlock()
	f.must(u.entry.done())
	f.refused(ESTALE)(Pread(fd, make([]byte, 1), 0))
	if err := Fstat(fd, new(Stat_t)); err != ESTALE {
		t.Error(err)
	}
	f.must(Close(fd))
	f.refused(EBADF)(Pread(fd, make([]byte, 1), 0))
}

// Where the path leads to another file, its id leads to it; if that leads nowhere either, all that is done says so.
func TestAFileIsFoundAgain(t *testing.T) {
	f := newFolder(t)
	f.write("file", "content")
	fd := f.open("file", O_RDONLY)
	for _, step := range []struct {
		do   func()
		want error
	}{
		{func() { f.must(os.Rename(f.path+`\file`, f.path+`\moved`)); f.write("file", "another") }, nil},
		{func() { f.must(os.Remove(f.path + `\moved`)) }, ESTALE},
	} {
		u, err := here.use(fd)
		f.must(err)
		u.gate.RUnlock()
		u.gate.Lock()
		u.leave()
		step.do()
		u.enter(f.handle(), "file")
		u.gate.Unlock()
		f.must(u.entry.done())
		if _, err := Pread(fd, make([]byte, 1), 0); err != step.want {
			t.Errorf("%v, not %v", err, step.want)
		}
	}
}

func (f folder) handle() windows.Handle {
	f.Helper()
	u, err := here.use(f.fd)
	f.must(err)
	defer u.done()
	return u.handle
}

// Descriptors are used while their directory gets one name after the other: each write arrives.
func TestUseDuringRenames(t *testing.T) {
	f := newFolder(t)
	f.mkdir("d0", `d0\sub`)
	sub := f.ok(OpenBeneath(f.fd, "d0/sub", O_PATH))
	log := f.ok(Openat(sub, "log", O_WRONLY|O_CREAT|O_APPEND, 0o644))
	var stop atomic.Bool
	var group sync.WaitGroup
	made, lines := 0, 0
	group.Go(func() {
		for ; !stop.Load(); lines++ {
			if _, err := Write(log, []byte("x")); err != nil {
				t.Error(err)
				return
			}
		}
	})
	group.Go(func() {
		for ; !stop.Load(); made++ {
			fd, err := Openat(sub, fmt.Sprint("f", made), O_WRONLY|O_CREAT|O_EXCL, 0o644)
			if err != nil {
				t.Error(err)
				return
			}
			if err := Close(fd); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range 20 {
		f.must(Renameat(f.fd, fmt.Sprint("d", i), f.fd, fmt.Sprint("d", i+1), RENAME_NOREPLACE))
	}
	stop.Store(true)
	group.Wait()
	if st := f.stat(log); st.Size != int64(lines) {
		t.Errorf("%d bytes of %d", st.Size, lines)
	}
	entries, err := os.ReadDir(f.path + `\d20\sub`)
	if err != nil || len(entries) != made+1 {
		t.Errorf("%d entries, not %d: %v", len(entries), made+1, err)
	}
	f.must(Close(log))
	f.must(Close(sub))
}

// impatient waits for nobody during a test. After some tries, then is called.
func impatient(t *testing.T, tries int, then func()) {
	was := here.patience
	t.Cleanup(func() { here.patience = was })
	n := 0
	here.patience = patience{pauses: was.pauses[:tries], sleep: func(time.Duration) {
		if n++; n == tries && then != nil {
			then()
		}
	}}
}

// Somebody has a file open and shares nothing: it is tried again for a while, and then EBUSY.
func TestAnotherProgramIsInTheWay(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(f folder) error
		after string
	}{
		"open": {func(f folder) error {
			fd, err := Openat(f.fd, "file", O_RDWR, 0)
			if err == nil {
				err = Close(fd)
			}
			return err
		}, "a:a file:x"},
		"remove":  {func(f folder) error { return Unlinkat(f.fd, "file", false) }, "a:a"},
		"rename":  {func(f folder) error { return Renameat(f.fd, "file", f.fd, "new", 0) }, "a:a new:x"},
		"replace": {func(f folder) error { return Renameat(f.fd, "a", f.fd, "file", 0) }, "file:a"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			f.write("a", "a")
			f.write("file", "x")
			release := f.held("file", windows.GENERIC_READ, windows.FILE_SHARE_READ)
			impatient(t, 3, nil)
			if err := c.do(f); err != EBUSY {
				t.Errorf("%v, not EBUSY", err)
			}
			if got := f.tree(); got != "a:a file:x" {
				t.Error(got)
			}
			impatient(t, 3, release)
			if err := c.do(f); err != nil {
				t.Errorf("after it was given back: %v", err)
			}
			if got := f.tree(); got != c.after {
				t.Error(got)
			}
		})
	}
}
