package posix

import (
	"net"
	"os"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

const at = unix.AT_FDCWD

// nameCases change names.
var nameCases = []testCase{
	{"create", func(r *recorder) {
		r.with("new", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, func(int) {})
		r.with("new", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, func(int) {})
		r.with("src/new", unix.O_CREAT|unix.O_RDWR, func(int) {})
		r.with("nowhere/new", unix.O_CREAT|unix.O_RDWR, func(int) {})
		r.with("small.txt/new", unix.O_CREAT|unix.O_RDWR, func(int) {})
		r.with(strings.Repeat("l", 255), unix.O_CREAT|unix.O_RDWR, func(int) {})
		r.with(strings.Repeat("l", 256), unix.O_CREAT|unix.O_RDWR, func(int) {})
		r.with("dangling", unix.O_CREAT|unix.O_WRONLY, func(int) {}) // makes its target
		r.with("loop", unix.O_RDONLY, func(int) {})
		r.stat("new")
		r.list(".")
	}},
	{"umask", func(r *recorder) {
		old := unix.Umask(0o027)
		defer unix.Umask(old)
		fd, err := unix.Open("masked", unix.O_CREAT|unix.O_WRONLY, 0o777)
		if r.err("open", err) {
			unix.Close(fd)
		}
		r.err("mkdir", unix.Mkdir("masked-dir", 0o777))
		r.err("mkfifo", unix.Mkfifo("masked-fifo", 0o666))
		unix.Umask(0)
		r.err("mkdir", unix.Mkdir("open-dir", 0o777))
		for _, p := range []string{"masked", "masked-dir", "masked-fifo", "open-dir"} {
			r.stat(p)
		}
	}},
	{"mkdir and rmdir", func(r *recorder) {
		r.err("mkdir", unix.Mkdir("one", 0o750))
		r.err("mkdir again", unix.Mkdir("one", 0o750))
		r.err("nested", os.MkdirAll("one/two/three/four", 0o755))
		r.err("rmdir not empty", unix.Rmdir("one"))
		r.err("rmdir empty", unix.Rmdir("emptydir"))
		r.err("rmdir a file", unix.Rmdir("small.txt"))
		r.err("unlink a directory", unix.Unlink("src"))
		r.err("rmdir .", unix.Rmdir("."))
		r.list(".")
	}},
	{"special files", func(r *recorder) {
		r.err("mkfifo", unix.Mkfifo("pipe", 0o640))
		l, err := net.Listen("unix", "socket")
		if r.err("bind", err) {
			c, err := net.Dial("unix", "socket")
			if r.err("connect", err) {
				c.Close()
			}
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			l.Close()
		}
		r.err("mknod of a file", unix.Mknod("regular", unix.S_IFREG|0o600, 0))
		r.err("mknod of a device", unix.Mknod("null", unix.S_IFCHR|0o666, 0x103))
		r.err("unlink a fifo", unix.Unlink("fifo"))
		for _, p := range []string{"pipe", "socket", "regular", "null"} {
			r.stat(p)
		}
	}},
	{"links", func(r *recorder) {
		r.err("link", unix.Link("small.txt", "src/small-too"))
		r.err("link over", unix.Link("small.txt", "empty.txt"))
		r.err("link of a directory", unix.Link("src", "src2"))
		r.err("link of a symlink", unix.Linkat(at, "link", at, "link2", 0))
		r.err("link through a symlink", unix.Linkat(at, "link", at, "followed", unix.AT_SYMLINK_FOLLOW))
		r.stat("small.txt")
		r.stat("link2")
		r.stat("followed")
		r.err("unlink one name", unix.Unlink("pair-a"))
		r.stat("pair-b")
		r.err("unlink the other", unix.Unlink("pair-b"))
		for _, p := range []string{"hard/one", "hard/two", "hard/er/three"} {
			r.err("unlink", unix.Unlink(p))
		}
	}},
	{"symlinks", func(r *recorder) {
		r.err("symlink", unix.Symlink("src/main.rs", "sym"))
		r.err("symlink over", unix.Symlink("x", "small.txt"))
		r.err("absolute", unix.Symlink("/etc/hostname", "abs"))
		r.err("long target", unix.Symlink(strings.Repeat("t/", 2000), "longsym"))
		r.err("empty target", unix.Symlink("", "nosym"))
		target, err := os.Readlink("longsym")
		r.err("readlink", err)
		r.see("length", len(target))
		r.file("sym")
		r.err("remove one", unix.Unlink("dangling"))
		r.stat("sym")
	}},
	{"rename", func(r *recorder) {
		r.err("to a new name", unix.Rename("small.txt", "renamed"))
		r.err("over a file", unix.Rename("medium.txt", "run.sh"))
		r.err("into a directory", unix.Rename("large.bin", "src/components/large"))
		r.err("a directory", unix.Rename("src", "source"))
		r.err("a directory over an empty one", unix.Rename("source", "emptydir"))
		r.err("a directory over a full one", unix.Rename("emptydir", "hard"))
		r.err("a directory over a file", unix.Rename("emptydir", "empty.txt"))
		r.err("a file over a directory", unix.Rename("empty.txt", "emptydir"))
		r.err("into itself", unix.Rename("emptydir", "emptydir/components/x"))
		r.err("over its ancestor", unix.Rename("emptydir/components", "emptydir"))
		r.err("from nowhere", unix.Rename("nothing", "x"))
		r.err("onto itself", unix.Rename("renamed", "renamed"))
		r.err("onto its hard link", unix.Rename("pair-a", "pair-b"))
		r.err("a symlink", unix.Rename("link", "hard/link"))
		r.err("a fifo", unix.Rename("fifo", "hard/fifo"))
		r.list(".")
		r.list("emptydir")
		r.list("hard")
	}},
	{"rename chains", func(r *recorder) {
		r.err("1", unix.Rename("small.txt", "tmp"))
		r.err("2", unix.Rename("medium.txt", "small.txt"))
		r.err("3", unix.Rename("tmp", "medium.txt"))
		r.err("4", unix.Rename("src/components", "comp"))
		r.err("5", unix.Rename("src", "comp/src"))
		r.err("6", unix.Rename("hard", "comp/src/hard"))
		r.err("7", unix.Rename("comp", "src"))
		r.file("small.txt")
		r.list("src")
		r.list("src/src")
	}},
	{"rename with NOREPLACE and EXCHANGE", func(r *recorder) {
		r.err("noreplace", unix.Renameat2(at, "small.txt", at, "medium.txt", unix.RENAME_NOREPLACE))
		r.err("noreplace to new", unix.Renameat2(at, "small.txt", at, "new", unix.RENAME_NOREPLACE))
		r.err("exchange files", unix.Renameat2(at, "new", at, "medium.txt", unix.RENAME_EXCHANGE))
		r.err("exchange file and directory", unix.Renameat2(at, "run.sh", at, "src", unix.RENAME_EXCHANGE))
		r.err("exchange directories", unix.Renameat2(at, "hard", at, "run.sh/components", unix.RENAME_EXCHANGE))
		r.err("exchange with nothing", unix.Renameat2(at, "large.bin", at, "nothing", unix.RENAME_EXCHANGE))
		r.err("exchange with below", unix.Renameat2(at, "run.sh", at, "run.sh/components", unix.RENAME_EXCHANGE))
		r.err("both flags", unix.Renameat2(at, "new", at, "medium.txt", unix.RENAME_EXCHANGE|unix.RENAME_NOREPLACE))
		r.file("new")
		r.file("src")
		r.list("run.sh/components")
	}},
	{"O_TMPFILE and a name for it", func(r *recorder) {
		fd, err := unix.Open("src", unix.O_TMPFILE|unix.O_RDWR, 0o640)
		if !r.err("open", err) {
			return
		}
		_, err = unix.Write(fd, []byte("nameless"))
		r.err("write", err)
		r.err("link", unix.Linkat(at, "/proc/self/fd/"+itoa(fd), at, "src/named", unix.AT_SYMLINK_FOLLOW))
		unix.Close(fd)
		fd, err = unix.Open(".", unix.O_TMPFILE|unix.O_RDWR, 0o640)
		if r.err("open another", err) {
			_, err = unix.Write(fd, []byte("never named"))
			r.err("write", err)
			unix.Close(fd)
		}
		r.stat("src/named")
		r.file("src/named")
		r.list(".")
	}},
	{"remove while listing", func(r *recorder) {
		r.err("mkdir", unix.Mkdir("crowd", 0o755))
		for i := range 300 {
			if err := os.WriteFile("crowd/"+strings.Repeat("n", 40)+itoa(i), nil, 0o644); err != nil {
				r.err("write", err)
			}
		}
		d, err := os.Open("crowd")
		if !r.err("open", err) {
			return
		}
		defer d.Close()
		seen := 0
		for {
			names, err := d.Readdirnames(50)
			for _, n := range names {
				seen++
				if err := os.Remove("crowd/" + n); err != nil {
					r.err("remove", err)
				}
			}
			if err != nil || len(names) == 0 {
				break
			}
		}
		r.see("seen", seen)
		r.err("rmdir", unix.Rmdir("crowd"))
	}},
	{"remove everything", func(r *recorder) {
		entries, err := os.ReadDir(".")
		r.err("list", err)
		for _, e := range entries {
			r.err("remove "+e.Name(), os.RemoveAll(e.Name()))
		}
		r.list(".")
	}},
	{"remove and make again under the same names", func(r *recorder) {
		for _, p := range []string{"small.txt", "link", "pair-a", "fifo"} {
			r.err("unlink", unix.Unlink(p))
			r.err("mkdir", unix.Mkdir(p, 0o700))
		}
		r.err("remove", os.RemoveAll("src"))
		r.err("file in its place", os.WriteFile("src", []byte("a file now"), 0o600))
		r.err("remove", os.RemoveAll("hard"))
		r.err("made again", os.MkdirAll("hard/er", 0o711))
		r.err("written again", os.WriteFile("hard/er/three", []byte("another"), 0o600))
		r.list(".")
	}},
	{"odd names", func(r *recorder) {
		for _, name := range []string{"\xff\xfe", "a\nb", "-x", " ", "...", "\x01", strings.Repeat("\xe9", 255), "a\\b", "'\"", "~"} {
			r.err("create", os.WriteFile(name, []byte(name), 0o644))
			r.err("rename", os.Rename(name, "src/"+name))
		}
		r.err("remove", os.Remove("latin1-\xe9\xff"))
		r.err("rename", os.Rename("new\nline \t\\ \"quoted\"", "plain"))
		r.list("src")
	}},
	{"deeper than PATH_MAX", func(r *recorder) {
		fd, err := unix.Open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		r.err("open", err)
		name := strings.Repeat("d", 250)
		for range 20 {
			r.err("mkdirat", unix.Mkdirat(fd, name, 0o755))
			next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
			unix.Close(fd)
			if !r.err("openat", err) {
				return
			}
			fd = next
		}
		f, err := unix.Openat(fd, "leaf", unix.O_CREAT|unix.O_WRONLY, 0o644)
		if r.err("create", err) {
			unix.Close(f)
		}
		r.err("renameat", unix.Renameat(at, "small.txt", fd, "small"))
		unix.Close(fd)
		_, err = os.Stat(strings.Repeat(name+"/", 20))
		r.err("stat by path", err)
	}},
	{"inode numbers", func(r *recorder) {
		number := func(path string) uint64 {
			var st unix.Stat_t
			r.err("stat", unix.Lstat(path, &st))
			return st.Ino
		}
		r.see("hard links agree", number("pair-a") == number("pair-b"))
		before := number("small.txt")
		r.err("rename", unix.Rename("small.txt", "elsewhere"))
		r.see("a rename keeps it", number("elsewhere") == before)
		r.see("directory entries agree", entryNumbers("."))
		wd, err := os.Getwd()
		r.err("getwd", err)
		r.see("absolute", strings.HasPrefix(wd, "/"))
	}},
}

// entryNumbers reports whether what getdents tells of inode numbers is what
// stat tells.
func entryNumbers(dir string) bool {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	buf := make([]byte, 64<<10)
	var names []string
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			return false
		}
		if n == 0 {
			break
		}
		for b := buf[:n]; len(b) > 0; {
			ino := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 | uint64(b[5])<<40
			length := int(b[16]) | int(b[17])<<8
			name, _, _ := strings.Cut(string(b[19:length]), "\x00")
			b = b[length:]
			if name == "." || name == ".." {
				continue
			}
			names = append(names, name)
			var st unix.Stat_t
			if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Ino&(1<<48-1) != ino {
				return false
			}
		}
	}
	sort.Strings(names)
	return len(names) > 10
}
