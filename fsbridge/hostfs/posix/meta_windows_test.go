package posix

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"golang.org/x/sys/windows"
)

func TestStat(t *testing.T) {
	f := newFolder(t)
	start := time.Now().Add(-3 * time.Second)
	f.write("file", "content")
	f.mkdir("dir")
	file, dir := f.statAt("file"), f.statAt("dir")
	if file.Mode != S_IFREG|0o644 || file.Size != 7 || file.Nlink != 1 || file.Blksize != 4096 || file.Uid != 0 || file.Gid != 0 || file.Rdev != 0 {
		t.Errorf("%+v", file)
	}
	if dir.Mode != S_IFDIR|0o755 || dir.Nlink != 2 || dir.Size != 4096 {
		t.Errorf("%+v", dir)
	}
	if file.Ino == 0 || file.Ino == dir.Ino || file.Dev == 0 || file.Dev != dir.Dev || file.Dev != f.stat(f.fd).Dev {
		t.Errorf("%+v %+v", file, dir)
	}
	for _, at := range []Timespec{file.Atim, file.Mtim, file.Ctim, dir.Mtim} {
		if when := time.Unix(at.Unix()); when.Before(start) || when.After(time.Now().Add(3*time.Second)) || at.Nano() != when.UnixNano() {
			t.Errorf("%v", when)
		}
	}
	for _, flags := range []int{O_RDONLY, O_PATH, O_WRONLY, O_RDWR} {
		if st := f.stat(f.open("file", flags)); st.Ino != file.Ino || st.Size != file.Size || st.Mtim != file.Mtim {
			t.Errorf("%#x: %+v", flags, st)
		}
	}
	var st Stat_t
	for name, want := range map[string]error{"": nil, ".": nil, "FILE": nil, "missing": ENOENT, "..": EINVAL, "con": EINVAL, "a/b": EINVAL} {
		if err := Fstatat(f.fd, name, &st); err != want {
			t.Errorf("%q: %v, not %v", name, err, want)
		}
	}
	if err := Fstatat(f.open("file", O_RDONLY), "x", &st); err != ENOTDIR {
		t.Error(err)
	}
	if uid, bits, err := Attributes(f.fd, "file"); uid != 0 || bits != 0 || err != nil {
		t.Error(uid, bits, err)
	}
	if _, _, err := Attributes(f.fd, "missing"); err != ENOENT {
		t.Error(err)
	}
}

func TestMoments(t *testing.T) {
	for _, c := range []struct {
		at   Timespec
		file int64
		back Timespec
	}{
		{Timespec{0, 0}, 116444736000000000, Timespec{0, 0}},
		{Timespec{1, 999_999_999}, 116444736019999999, Timespec{1, 999_999_900}},
		{Timespec{-1, 500}, 116444735990000005, Timespec{-1, 500}},
		{Timespec{1_600_000_000, 123_456_789}, 132444736001234567, Timespec{1_600_000_000, 123_456_700}},
		{Timespec{-11644473600, 0}, 1, Timespec{-11644473600, 100}}, // 0 is "leave it"
		{Timespec{-1 << 60, 0}, 1, Timespec{-11644473600, 100}},
		{Timespec{1 << 60, 0}, 1<<63 - 2, Timespec{910692730085, 477_580_600}},
	} {
		if got := c.at.filetime(); got != c.file {
			t.Errorf("%v: %d, not %d", c.at, got, c.file)
		}
		if got := moment(c.file); got != c.back {
			t.Errorf("%d: %v, not %v", c.file, got, c.back)
		}
	}
}

func TestUtimens(t *testing.T) {
	f := newFolder(t)
	f.write("file", "x")
	f.mkdir("dir")
	first, second := Timespec{1_600_000_000, 123_456_700}, Timespec{-5, 100}
	for _, name := range []string{"file", "dir"} {
		fd := f.open(name, O_PATH)
		f.must(Utimens(fd, &[2]Timespec{first, second}))
		if st := f.stat(fd); st.Atim != first || st.Mtim != second {
			t.Errorf("%s: %v %v", name, st.Atim, st.Mtim)
		}
		f.must(Utimens(fd, &[2]Timespec{{0, UTIME_OMIT}, first}))
		f.must(Utimens(fd, &[2]Timespec{{0, UTIME_OMIT}, {0, UTIME_OMIT}}))
		if st := f.stat(fd); st.Atim != first || st.Mtim != first {
			t.Errorf("%s: %v %v", name, st.Atim, st.Mtim)
		}
		f.must(Utimens(fd, &[2]Timespec{second, {0, UTIME_NOW}}))
		if st := f.stat(fd); st.Atim != second || time.Since(time.Unix(st.Mtim.Unix())).Abs() > time.Minute {
			t.Errorf("%s: %v %v", name, st.Atim, st.Mtim)
		}
	}
}

func TestReadOnlyAttribute(t *testing.T) {
	f := newFolder(t)
	f.write("file", "x")
	fd := f.open("file", O_PATH)
	f.must(Chmod(fd, 0o444))
	if st := f.statAt("file"); st.Mode != S_IFREG|0o444 {
		t.Errorf("%o", st.Mode)
	}
	f.refused(EACCES)(Openat(f.fd, "file", O_WRONLY, 0))
	for _, effective := range []bool{true, false} {
		want := map[bool]error{true: EACCES}[effective]
		if err := Faccessat(f.fd, "file", W_OK, effective); err != want {
			t.Errorf("%v: %v", effective, err)
		}
		if err := Faccessat(f.fd, "file", R_OK, effective); err != nil {
			t.Error(err)
		}
	}
	f.must(Utimens(fd, &[2]Timespec{{1, 0}, {2, 0}}))
	if st := f.statAt("file"); st.Mode != S_IFREG|0o444 || st.Mtim.Sec != 2 {
		t.Errorf("%+v", st)
	}
	f.must(Chmod(fd, 0o755))
	if st := f.statAt("file"); st.Mode != S_IFREG|0o644 {
		t.Errorf("%o", st.Mode)
	}
	f.must(Chown(fd, 1, 1))
	f.must(Chmod(f.fd, 0o500)) // nothing
	made := f.ok(Openat(f.fd, "made", O_RDWR|O_CREAT|O_EXCL, 0o400))
	f.ok(Write(made, []byte("first")))
	if st := f.stat(made); st.Mode != S_IFREG|0o444 {
		t.Errorf("%o", st.Mode)
	}
	f.must(Close(made))
	// What is read-only can be replaced and removed, as on Linux.
	f.must(Renameat(f.fd, "file", f.fd, "made", 0))
	f.must(Chmod(fd, 0o444))
	f.must(Unlinkat(f.fd, "made", false))
	if got := f.tree(); got != "" {
		t.Error(got)
	}
}

func TestAccess(t *testing.T) {
	f := newFolder(t)
	f.write("file", "x")
	f.mkdir("dir")
	for _, name := range []string{"file", "dir", "."} {
		for _, mode := range []uint32{0, R_OK, W_OK, R_OK | W_OK} {
			if err := Faccessat(f.fd, name, mode, true); err != nil {
				t.Errorf("%s %d: %v", name, mode, err)
			}
		}
	}
	if err := Faccessat(f.fd, "dir", X_OK|W_OK, false); err != nil {
		t.Error(err)
	}
	if err := Faccessat(f.fd, "missing", 0, false); err != ENOENT {
		t.Error(err)
	}
}

func TestFileSystem(t *testing.T) {
	f := newFolder(t)
	var s Statfs_t
	f.must(Fstatfs(f.fd, &s))
	if s.Type == 0 || s.Bsize < 512 || s.Frsize != s.Bsize || s.Blocks == 0 || s.Bfree > s.Blocks || s.Bavail > s.Blocks || s.Namelen < 255 || s.Flags != 0 {
		t.Errorf("%+v", s)
	}
	f.mkdir("a", "b")
	a, b, again := f.open("a", O_RDONLY), f.open("b", O_RDONLY), f.open("a", O_PATH)
	if VolumeID(a) == "" || VolumeID(a) != VolumeID(b) {
		t.Errorf("%q %q", VolumeID(a), VolumeID(b))
	}
	if HandleID(a) == "" || HandleID(a) == HandleID(b) || HandleID(a) != HandleID(again) {
		t.Errorf("%q %q %q", HandleID(a), HandleID(b), HandleID(again))
	}
	if Apart(a, b) || Apart(a, 9999) {
		t.Error("apart")
	}
	if born, ok := Born(a); !ok || time.Since(time.Unix(born.Unix())).Abs() > time.Minute {
		t.Error(born, ok)
	}
	if _, ok := Born(9999); ok || VolumeID(9999) != "" || HandleID(9999) != "" || FineTimes(a) || MountEpoch(a) != "" {
		t.Error("what is not there is told")
	}
}

func TestUnlink(t *testing.T) {
	f := newFolder(t)
	f.mkdir("d", "full", `full\x`)
	f.write("a", "a")
	for _, c := range []struct {
		name      string
		directory bool
		want      error
	}{
		{"missing", false, ENOENT}, {"missing", true, ENOENT}, {"d", false, EISDIR}, {"a", true, ENOTDIR}, {"full", true, ENOTEMPTY}, {".", true, EINVAL},
		{".", false, EISDIR}, {"..", true, EINVAL}, {"nul", false, EINVAL}, {"", false, ENOENT}, {"a:b", false, EINVAL}, {`full\x`, true, EINVAL},
	} {
		if err := Unlinkat(f.fd, c.name, c.directory); err != c.want {
			t.Errorf("%q %v: %v, not %v", c.name, c.directory, err, c.want)
		}
	}
	if got := f.tree(); got != "a:a d/ full/ full/x/" {
		t.Fatal(got)
	}
	// With somebody's hand on them, ours or another program's that shares all.
	file, path, dir := f.open("a", O_RDWR), f.open("a", O_PATH), f.open("d", O_RDONLY)
	release := f.held("a", windows.GENERIC_READ, shareAll)
	f.must(Unlinkat(f.fd, "a", false))
	f.must(Unlinkat(f.fd, "d", true))
	f.must(Mkdirat(f.fd, "a", 0o755)) // the name is free
	f.must(Mkdirat(f.fd, "d", 0o755))
	f.ok(Pwrite(file, []byte("A"), 0))
	if got := f.content(file); got != "A" {
		t.Errorf("%q", got)
	}
	if st := f.stat(path); st.Nlink != 0 {
		t.Errorf("%d names", st.Nlink)
	}
	again := f.ok(Reopen(file, O_RDONLY))
	if got := f.content(again); got != "A" {
		t.Errorf("reopened: %q", got)
	}
	f.must(Close(again))
	f.refused(ENOENT)(Openat(dir, "x", O_RDONLY, 0))
	release()
}

func TestReopen(t *testing.T) {
	f := newFolder(t)
	f.write("file", "content")
	f.mkdir("dir")
	file, dir := f.open("file", O_PATH), f.open("dir", O_PATH)
	for _, c := range []struct {
		fd, flags int
		want      error
	}{
		{file, O_RDWR, nil}, {file, O_PATH, nil}, {file, O_WRONLY | O_APPEND, nil}, {file, O_RDONLY | O_DIRECTORY, ENOTDIR},
		{dir, O_RDONLY, nil}, {dir, O_RDONLY | O_DIRECTORY, nil}, {dir, O_RDWR, EISDIR}, {9999, O_RDONLY, EBADF},
	} {
		fd, err := Reopen(c.fd, c.flags)
		if err != c.want {
			t.Errorf("%d %#x: %v, not %v", c.fd, c.flags, err, c.want)
		}
		if err == nil {
			if f.stat(fd).Ino != f.stat(c.fd).Ino {
				t.Error("another inode")
			}
			f.must(Close(fd))
		}
	}
	f.must(Close(f.ok(Reopen(file, O_WRONLY|O_TRUNC))))
	if got := f.read("file"); got != "" {
		t.Errorf("%q", got)
	}
}

func TestMakeAndLink(t *testing.T) {
	f := newFolder(t)
	f.must(Mkdirat(f.fd, "d", 0o700))
	f.must(Mknodat(f.fd, "file", S_IFREG|0o644))
	f.must(Mknodat(f.fd, "read-only", 0o400))
	if st := f.statAt("read-only"); st.Mode != S_IFREG|0o444 {
		t.Errorf("%o", st.Mode)
	}
	fd := f.open("file", O_PATH)
	f.must(Linkat(f.fd, "file", f.open("d", O_PATH), "link"))
	f.must(Flinkat(fd, f.fd, "another"))
	if st := f.stat(fd); st.Nlink != 3 || f.statAt("another").Ino != st.Ino {
		t.Errorf("%+v", st)
	}
	for what, c := range map[string]struct{ err, want error }{
		"mkdir there":      {Mkdirat(f.fd, "d", 0o755), EEXIST},
		"mkdir of a file":  {Mkdirat(f.fd, "FILE", 0o755), EEXIST},
		"mkdir .":          {Mkdirat(f.fd, ".", 0o755), EEXIST},
		"mkdir device":     {Mkdirat(f.fd, "aux", 0o755), EINVAL},
		"mkdir in a file":  {Mkdirat(fd, "x", 0o755), ENOTDIR},
		"mknod there":      {Mknodat(f.fd, "file", S_IFREG), EEXIST},
		"FIFO":             {Mknodat(f.fd, "fifo", S_IFIFO|0o644), EPERM},
		"socket":           {Mknodat(f.fd, "socket", S_IFSOCK|0o644), EPERM},
		"symlink":          {Symlinkat("x", f.fd, "symlink"), EPERM},
		"symlink to be":    {Symlinkat("x", f.fd, "a:b"), EINVAL},
		"link there":       {Linkat(f.fd, "file", f.fd, "d"), EEXIST},
		"link of none":     {Linkat(f.fd, "missing", f.fd, "new"), ENOENT},
		"link of a dir":    {Linkat(f.fd, "d", f.fd, "new"), EPERM},
		"link of self":     {Flinkat(f.fd, f.fd, "new"), EPERM},
		"link in a file":   {Flinkat(fd, fd, "new"), ENOTDIR},
		"link to a stream": {Flinkat(fd, f.fd, "new:x"), EINVAL},
	} {
		if c.err != c.want {
			t.Errorf("%s: %v, not %v", what, c.err, c.want)
		}
	}
	if _, err := Readlinkat(f.fd, "file", make([]byte, 10)); err != EINVAL {
		t.Error(err)
	}
	if _, err := Readlinkat(f.fd, "missing", make([]byte, 10)); err != ENOENT {
		t.Error(err)
	}
	f.must(os.Chmod(f.path+`\read-only`, 0o644))
}

// Links themselves: where they can be made (wine cannot).
func TestLinksAreNotFollowed(t *testing.T) {
	f := newFolder(t)
	f.mkdir("d")
	f.write(`d\file`, "x")
	if err := os.Symlink("d", f.path+`\link`); err != nil {
		t.Skipf("no symlink can be made here: %v", err)
	}
	if _, err := os.Readlink(f.path + `\link`); err != nil {
		t.Skipf("no symlink can be read here (wine): %v", err)
	}
	f.refused(ELOOP)(OpenBeneath(f.fd, "link/file", O_RDONLY))
	f.refused(ELOOP)(Openat(f.fd, "link", O_RDONLY, 0))
	f.refused(ENOTDIR)(Openat(f.fd, "link", O_RDONLY|O_DIRECTORY, 0))
	fd := f.open("link", O_PATH)
	if st := f.stat(fd); st.Mode != S_IFLNK|0o777 {
		t.Errorf("%o", st.Mode)
	}
	buf := make([]byte, 100)
	if n := f.ok(Readlinkat(f.fd, "link", buf)); string(buf[:n]) != "d" {
		t.Errorf("%q", buf[:n])
	}
	f.must(Renameat(f.fd, "link", f.fd, "other", 0))
	f.must(Unlinkat(f.fd, "other", false))
	if got := f.tree(); got != "d/ d/file:x" {
		t.Error(got)
	}
}

// The names that Windows makes up (PROGRA~1) are none, but a name of that form that somebody has given is one.
func TestMadeUpNamesAreNotThere(t *testing.T) {
	f := newFolder(t)
	f.write("own~1", "own")
	f.must(Close(f.ok(Openat(f.fd, "OWN~1", O_RDWR, 0))))
	f.must(Renameat(f.fd, "own~1", f.fd, "other~1", 0))
	f.must(Unlinkat(f.fd, "other~1", false))
	f.write("a long name.text", "content")
	long, err := windows.UTF16PtrFromString(f.path + `\a long name.text`)
	f.must(err)
	buf := make([]uint16, 1000)
	n, err := windows.GetShortPathName(long, &buf[0], uint32(len(buf)))
	f.must(err)
	path := windows.UTF16ToString(buf[:n])
	short := path[strings.LastIndexByte(path, '\\')+1:]
	if _, err := os.Stat(path); err != nil || !mayBeShort(short) {
		t.Skipf("there are no made up names here: %q, %v", short, err)
	}
	f.refused(ENOENT)(Openat(f.fd, short, O_RDONLY, 0))
	f.refused(EEXIST)(Openat(f.fd, short, O_WRONLY|O_CREAT, 0o644))
	for what, err := range map[string]error{
		"stat": Fstatat(f.fd, short, new(Stat_t)), "remove": Unlinkat(f.fd, short, false), "rename": Renameat(f.fd, short, f.fd, "new", 0),
		"link": Linkat(f.fd, short, f.fd, "new"), "access": Faccessat(f.fd, short, 0, false),
	} {
		if err != ENOENT {
			t.Errorf("%s of %s: %v", what, short, err)
		}
	}
	f.write("x", "x")
	if err := Renameat(f.fd, "x", f.fd, short, 0); err != EEXIST {
		t.Errorf("rename to %s: %v", short, err)
	}
	if got := f.tree(); got != "a long name.text:content x:x" {
		t.Error(got)
	}
}

func TestModes(t *testing.T) {
	const reparse, dir, read = windows.FILE_ATTRIBUTE_REPARSE_POINT, windows.FILE_ATTRIBUTE_DIRECTORY, windows.FILE_ATTRIBUTE_READONLY
	for _, c := range []struct{ attributes, tag, want uint32 }{
		{windows.FILE_ATTRIBUTE_NORMAL, 0, S_IFREG | 0o644},
		{0, windows.IO_REPARSE_TAG_SYMLINK, S_IFREG | 0o644}, // no reparse point
		{read, 0, S_IFREG | 0o444},
		{dir, 0, S_IFDIR | 0o755},
		{dir | read, 0, S_IFDIR | 0o755},
		{reparse, windows.IO_REPARSE_TAG_SYMLINK, S_IFLNK | 0o777},
		{reparse | dir, windows.IO_REPARSE_TAG_SYMLINK, S_IFLNK | 0o777},
		{reparse | dir, windows.IO_REPARSE_TAG_MOUNT_POINT, S_IFLNK | 0o777},
		{reparse, tagLinux, S_IFLNK | 0o777},
		{reparse, 0xA0000019, S_IFLNK | 0o777}, // global reparse: a surrogate
		{reparse, 0x9000001A, S_IFREG | 0o644}, // cloud
		{reparse | dir, 0x9000701A, S_IFDIR | 0o755},
		{reparse | read, 0x80000013, S_IFREG | 0o444}, // dedup
		{reparse, tagSocket, S_IFSOCK | 0o644},
		{reparse, tagFIFO, S_IFIFO | 0o644},
	} {
		if got := modeOf(c.attributes, c.tag); got != c.want {
			t.Errorf("%#x %#x: %o, not %o", c.attributes, c.tag, got, c.want)
		}
	}
	for _, c := range []struct {
		mode  uint32
		flags int
		want  error
	}{
		{S_IFLNK, O_RDONLY, ELOOP}, {S_IFLNK, O_PATH, nil}, {S_IFLNK, O_PATH | O_DIRECTORY, ENOTDIR}, {S_IFSOCK, O_RDONLY, ENXIO}, {S_IFIFO, O_PATH, nil},
		{S_IFDIR, O_RDONLY, nil}, {S_IFDIR, O_RDWR, EISDIR}, {S_IFREG, O_RDWR, nil},
	} {
		if err := refused(traits{mode: c.mode}, c.flags); err != c.want {
			t.Errorf("%o %#x: %v, not %v", c.mode, c.flags, err, c.want)
		}
	}
}

// reparseBuffer is a REPARSE_DATA_BUFFER with a target and the name for people.
func reparseBuffer(tag uint32, target string, relative bool) []byte {
	b := binary.LittleEndian.AppendUint32(nil, tag)
	b = append(b, 0, 0, 0, 0)
	var names []byte
	for _, u := range utf16.Encode([]rune("people" + target)) {
		names = binary.LittleEndian.AppendUint16(names, u)
	}
	for _, n := range []int{12, len(names) - 12, 0, 12} {
		b = binary.LittleEndian.AppendUint16(b, uint16(n))
	}
	if tag == windows.IO_REPARSE_TAG_SYMLINK {
		flag := uint32(0)
		if relative {
			flag = 1
		}
		b = binary.LittleEndian.AppendUint32(b, flag)
	}
	b = append(b, names...)
	binary.LittleEndian.PutUint16(b[4:], uint16(len(b)-8))
	return b
}

func TestLinkTargets(t *testing.T) {
	linux := append([]byte{0x1d, 0, 0, 0xa0, 7, 0, 0, 0, 2, 0, 0, 0}, "a/b"...)
	for want, b := range map[string][]byte{
		"../a":       reparseBuffer(windows.IO_REPARSE_TAG_SYMLINK, `..\a`, true),
		"C:/x":       reparseBuffer(windows.IO_REPARSE_TAG_SYMLINK, `\??\C:\x`, false),
		"//srv/a":    reparseBuffer(windows.IO_REPARSE_TAG_SYMLINK, `\??\UNC\srv\a`, false),
		"D:/Ärger/":  reparseBuffer(windows.IO_REPARSE_TAG_MOUNT_POINT, `\??\D:\Ärger\`, false),
		"a/b":        linux,
		"UNC/is/dir": reparseBuffer(windows.IO_REPARSE_TAG_SYMLINK, `UNC\is\dir`, true),
	} {
		if got, err := linkTarget(b); got != want || err != nil {
			t.Errorf("%q, %v, not %q", got, err, want)
		}
		for n := range b { // cut off
			if got, err := linkTarget(b[:n]); err == nil && got == want && n < len(b)-12 {
				t.Errorf("%d bytes of %d give %q", n, len(b), got)
			}
		}
	}
	for _, b := range [][]byte{nil, make([]byte, 100), append([]byte{0xc, 0, 0, 0xa0}, strings.Repeat("\xff", 100)...)} {
		if got, err := linkTarget(b); err != EINVAL {
			t.Errorf("%q, %v", got, err)
		}
	}
}

func FuzzLinkTargets(f *testing.F) {
	f.Add(reparseBuffer(windows.IO_REPARSE_TAG_SYMLINK, `..\a`, true))
	f.Add(reparseBuffer(windows.IO_REPARSE_TAG_MOUNT_POINT, `\??\D:\`, true))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := linkTarget(b); err == nil && len(got) > 2*len(b) {
			t.Errorf("%d bytes give %d", len(b), len(got))
		}
	})
}

// TestStatOfRemoved: a file without a name is the one that it was.
func TestStatOfRemoved(t *testing.T) {
	for _, how := range []string{"unlinked", "replaced", "linked and unlinked"} {
		t.Run(how, func(t *testing.T) {
			f := newFolder(t)
			f.write("a", "text")
			f.write("b", "other")
			fd := f.open("a", O_RDWR)
			before := f.stat(fd)
			switch how {
			case "replaced":
				f.must(Renameat(f.fd, "b", f.fd, "a", 0))
			case "linked and unlinked":
				f.must(Linkat(f.fd, "a", f.fd, "c"))
				f.must(Unlinkat(f.fd, "a", false))
				f.must(Unlinkat(f.fd, "c", false))
			default:
				f.must(Unlinkat(f.fd, "a", false))
			}
			again := f.ok(Reopen(fd, O_RDWR))
			defer func() { f.must(Close(again)) }()
			for _, fd := range []int{fd, again} {
				if st := f.stat(fd); st.Dev != before.Dev || st.Ino != before.Ino || st.Size != 4 {
					t.Errorf("%+v, before: %+v", st, before)
				}
			}
		})
	}
}
