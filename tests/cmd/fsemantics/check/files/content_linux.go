package files

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/record"
)

func contentChecks() []record.Named {
	return []record.Named{
		{Name: "write-calls", Do: writeCalls}, {Name: "write-flags", Do: writeFlags}, {Name: "seek", Do: seek}, {Name: "seek-holes", Do: seekHoles},
		{Name: "truncate", Do: truncate}, {Name: "truncate-errors", Do: truncateErrors}, {Name: "ftruncate-errors", Do: ftruncateErrors},
		{Name: "fallocate", Do: fallocate}, {Name: "fallocate-punch", Do: fallocatePunch}, {Name: "fallocate-shift", Do: fallocateShift}, {Name: "fallocate-errors", Do: fallocateErrors},
		{Name: "copy-file-range", Do: copyFileRange}, {Name: "copy-file-range-errors", Do: copyErrors}, {Name: "sendfile", Do: sendfile}, {Name: "splice", Do: splice}, {Name: "clone", Do: clone},
		{Name: "mmap-shared", Do: mmapShared}, {Name: "mmap-after-close", Do: mmapAfterClose}, {Name: "mmap-after-unlink", Do: mmapAfterUnlink}, {Name: "mmap-coherent", Do: mmapCoherent},
		{Name: "mmap-rights", Do: mmapRights}, {Name: "fsync", Do: fsync}, {Name: "large-file", Do: largeFile}, {Name: "readahead", Do: readahead}, {Name: "sparse", Do: sparse},
	}
}

func writeCalls(c *record.Seen) {
	fd := c.Get("f", unix.O_RDWR|unix.O_CREAT)
	c.Write("write", fd, "12345")
	n, err := unix.Pwrite(fd, []byte("ab"), 8)
	c.Err("pwrite", err)
	c.See("pwrite-n", n)
	n, err = unix.Writev(fd, [][]byte{[]byte("x"), []byte("yz")})
	c.Err("writev", err)
	c.See("writev-n", n)
	n, err = unix.Pwritev(fd, [][]byte{[]byte("P"), []byte("Q")}, 0)
	c.Err("pwritev", err)
	c.See("pwritev-n", n)
	c.Content("content", "f")
	b := make([]byte, 4)
	n, err = unix.Pread(fd, b, 2)
	c.Err("pread", err)
	c.See("pread-data", string(b[:n]))
	n, err = unix.Pread(fd, b, 100)
	c.Err("pread-end", err)
	c.See("pread-end-n", n)
	_, err = unix.Pwrite(fd, []byte("x"), -1)
	c.Err("pwrite-negative", err)
	_, err = unix.Pwrite(fd, []byte("x"), math.MaxInt64)
	c.Err("pwrite-far", err)
	n, err = unix.Write(fd, nil)
	c.Err("write-nothing", err)
	c.See("write-nothing-n", n)
}

func writeFlags(c *record.Seen) {
	c.Put("f", "12345")
	fd := c.Get("f", unix.O_WRONLY)
	for i, flags := range []int{unix.RWF_APPEND, unix.RWF_DSYNC, unix.RWF_SYNC, unix.RWF_NOWAIT, unix.RWF_HIPRI, 0x4000} {
		_, err := unix.Pwritev2(fd, [][]byte{[]byte("a")}, 0, flags)
		if flags == unix.RWF_NOWAIT && err == unix.EAGAIN {
			err = nil // it may
		}
		c.Err(fmt.Sprint("flags", i), err)
	}
	b, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	c.Err("getfl", err)
	c.See("fl", fmt.Sprintf("%#o", b))
}

func seek(c *record.Seen) {
	c.Put("f", "12345")
	fd := c.Get("f", unix.O_RDWR)
	for i, s := range []struct {
		off    int64
		whence int
	}{{3, 0}, {1, 1}, {-2, 2}, {10, 2}, {-1, 0}, {0, 9}, {math.MaxInt64, 0}} {
		got, err := unix.Seek(fd, s.off, s.whence)
		c.Err(fmt.Sprint("seek", i), err)
		if s.off != math.MaxInt64 {
			c.See(fmt.Sprint("at", i), got)
		}
	}
	_, err := unix.Seek(fd, 7, 0)
	c.Must(err)
	c.Write("beyond", fd, "x")
	c.Content("content", "f")
}

func seekHoles(c *record.Seen) {
	fd := c.Get("f", unix.O_RDWR|unix.O_CREAT)
	c.Must(unix.Ftruncate(fd, 1<<20))
	for _, off := range []int64{0, 512 << 10} {
		_, err := unix.Pwrite(fd, []byte("island"), off)
		c.Must(err)
	}
	c.Must(unix.Fsync(fd))
	for i, from := range []int64{0, 4096, 512 << 10, 512<<10 + 4096, 1 << 20} {
		for whence, label := range record.Ordered(map[int]string{unix.SEEK_DATA: "data", unix.SEEK_HOLE: "hole"}) {
			got, err := unix.Seek(fd, from, whence)
			c.Err(fmt.Sprint("seek", i, label), err)
			c.See(fmt.Sprint("at", i, label), got)
		}
	}
	c.Sort()
}

func truncate(c *record.Seen) {
	c.Put("f", "12345")
	for i, n := range []int64{3, 8, 0, 5000, 5000} {
		c.Err(fmt.Sprint("truncate", i), unix.Truncate("f", n))
		c.Stat(fmt.Sprint("stat", i), "f")
	}
	c.Put("g", "12345")
	fd := c.Get("g", unix.O_RDWR)
	c.Err("ftruncate", unix.Ftruncate(fd, 2))
	c.Err("ftruncate-grow", unix.Ftruncate(fd, 4))
	c.Content("content", "g")
	a := c.Get("g", unix.O_WRONLY|unix.O_APPEND)
	c.Err("ftruncate-append", unix.Ftruncate(a, 1))
	c.Write("append", a, "x")
	c.Content("content2", "g")
}

func truncateErrors(c *record.Seen) {
	c.Put("f", "12345")
	c.Mkdir("d")
	c.Must(unix.Symlink("no", "dangling"))
	c.Must(unix.Mkfifo("p", 0o600))
	c.Err("negative", unix.Truncate("f", -1))
	c.Err("negative-missing", unix.Truncate("no", -1))
	c.Err("huge", unix.Truncate("f", math.MaxInt64))
	for _, n := range []string{"d", "dangling", "p", "no", "f/", "f/x", ""} {
		c.Err("at-"+n, unix.Truncate(n, 0))
	}
	c.Must(unix.Chmod("f", 0o444))
	c.Err("unwritable", unix.Truncate("f", 0))
	c.Content("content", "f")
}

func ftruncateErrors(c *record.Seen) {
	c.Put("f", "12345")
	c.Err("rdonly", unix.Ftruncate(c.Get("f", unix.O_RDONLY), 0))
	c.Err("path", unix.Ftruncate(c.Get("f", unix.O_PATH), 0))
	c.Err("directory", unix.Ftruncate(c.Get(".", unix.O_RDONLY), 0))
	w := c.Get("f", unix.O_WRONLY)
	c.Err("negative", unix.Ftruncate(w, -1))
	c.Err("huge", unix.Ftruncate(w, math.MaxInt64))
	c.Content("content", "f")
}

func fallocate(c *record.Seen) {
	fd := c.Get("f", unix.O_RDWR|unix.O_CREAT)
	c.Err("allocate", unix.Fallocate(fd, 0, 0, 10_000))
	c.Fstat("stat", fd)
	c.Err("keep-size", unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, 50_000))
	c.Fstat("stat2", fd)
	c.Write("write", fd, "12345")
	c.Err("zero", unix.Fallocate(fd, unix.FALLOC_FL_ZERO_RANGE, 1, 2))
	c.Err("zero-keep", unix.Fallocate(fd, unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE, 9_000, 50_000))
	c.Fstat("stat3", fd)
	b := make([]byte, 6)
	_, err := unix.Pread(fd, b, 0)
	c.Err("read", err)
	c.See("data", record.Brief(b))
}

func fallocatePunch(c *record.Seen) {
	const punch = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	c.Put("f", strings.Repeat("x", 20_000))
	fd := c.Get("f", unix.O_RDWR)
	c.Err("punch", unix.Fallocate(fd, punch, 4096, 8192))
	c.Err("punch-end", unix.Fallocate(fd, punch, 19_999, 100_000))
	c.Err("punch-part", unix.Fallocate(fd, punch, 1, 1))
	b := make([]byte, 20_000)
	n, err := unix.Pread(fd, b, 0)
	c.Err("read", err)
	c.See("zeros", bytes.Count(b[:n], []byte{0}))
	c.Fstat("stat", fd)
	c.Err("without-keep", unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE, 0, 1))
}

func fallocateShift(c *record.Seen) {
	c.Put("f", strings.Repeat("a", 4096)+strings.Repeat("b", 4096)+"c")
	fd := c.Get("f", unix.O_RDWR)
	c.Err("collapse", unix.Fallocate(fd, unix.FALLOC_FL_COLLAPSE_RANGE, 0, 4096))
	c.Fstat("collapsed", fd)
	c.Err("insert", unix.Fallocate(fd, unix.FALLOC_FL_INSERT_RANGE, 0, 4096))
	c.Fstat("inserted", fd)
}

func fallocateErrors(c *record.Seen) {
	c.Put("f", "12345")
	w, r := c.Get("f", unix.O_WRONLY), c.Get("f", unix.O_RDONLY)
	c.Err("rdonly", unix.Fallocate(r, 0, 0, 10))
	c.Err("negative", unix.Fallocate(w, 0, -1, 10))
	c.Err("no-length", unix.Fallocate(w, 0, 0, 0))
	c.Err("too-far", unix.Fallocate(w, 0, math.MaxInt64, 10))
	c.Err("flags", unix.Fallocate(w, 1<<20, 0, 10))
	c.Err("directory", unix.Fallocate(c.Get(".", unix.O_RDONLY), 0, 0, 10))
	c.Err("path", unix.Fallocate(c.Get("f", unix.O_PATH), 0, 0, 10))
	c.Content("content", "f")
}

func copyFileRange(c *record.Seen) {
	c.Put("a", strings.Repeat("0123456789", 1000))
	src, dst := c.Get("a", unix.O_RDWR), c.Get("b", unix.O_RDWR|unix.O_CREAT)
	n, err := unix.CopyFileRange(src, nil, dst, nil, 5000, 0)
	c.Err("copy", err)
	c.See("n", n)
	off, at := int64(9_990), int64(4_995)
	n, err = unix.CopyFileRange(src, &off, dst, &at, 100, 0)
	c.Err("offsets", err)
	c.See("offsets-n", n)
	c.Stat("stat", "b")
	off, at = 0, 10_000
	n, err = unix.CopyFileRange(src, &off, src, &at, 100, 0)
	c.Err("same-file", err)
	c.See("same-file-n", n)
	c.Stat("stat-a", "a")
	b := make([]byte, 10)
	_, err = unix.Pread(src, b, 10_000)
	c.Err("read", err)
	c.See("data", string(b))
}

func copyErrors(c *record.Seen) {
	c.Put("a", "0123456789")
	c.Put("b", "")
	src, dst := c.Get("a", unix.O_RDWR), c.Get("b", unix.O_WRONLY)
	copying := func(label string, from, to int, off, at int64, flags int) {
		_, err := unix.CopyFileRange(from, &off, to, &at, 5, flags)
		c.Err(label, err)
	}
	copying("overlap", src, src, 0, 2, 0)
	copying("flags", src, dst, 0, 0, 1)
	copying("from-writer", dst, dst, 0, 0, 0)
	copying("to-reader", src, c.Get("b", unix.O_RDONLY), 0, 0, 0)
	copying("to-append", src, c.Get("b", unix.O_WRONLY|unix.O_APPEND), 0, 0, 0)
	copying("directory", c.Get(".", unix.O_RDONLY), dst, 0, 0, 0)
	c.Stat("stat", "b")
}

func sendfile(c *record.Seen) {
	c.Put("a", strings.Repeat("0123456789", 1000))
	src, dst := c.Get("a", unix.O_RDONLY), c.Get("b", unix.O_RDWR|unix.O_CREAT)
	n, err := unix.Sendfile(dst, src, nil, 4000)
	c.Err("sendfile", err)
	c.See("n", n)
	off := int64(9_995)
	n, err = unix.Sendfile(dst, src, &off, 4000)
	c.Err("offset", err)
	c.See("offset-n", n)
	c.Stat("stat", "b")
	_, err = unix.Sendfile(c.Get("b", unix.O_WRONLY|unix.O_APPEND), src, nil, 1)
	c.Err("append", err)
	_, err = unix.Sendfile(c.Get("b", unix.O_RDONLY), src, nil, 1)
	c.Err("to-reader", err)
}

func splice(c *record.Seen) {
	c.Put("a", "0123456789")
	r, w, err := record.Pipe()
	c.Must(err)
	src, dst := c.Get("a", unix.O_RDONLY), c.Get("b", unix.O_RDWR|unix.O_CREAT)
	n, err := unix.Splice(src, nil, w, nil, 100, 0)
	c.Err("in", err)
	c.See("in-n", n)
	n, err = unix.Splice(r, nil, dst, nil, 100, 0)
	c.Err("out", err)
	c.See("out-n", n)
	c.Content("content", "b")
	c.Write("pipe", w, "x")
	_, err = unix.Splice(r, nil, src, nil, 1, 0)
	c.Err("to-reader", err)
}

func clone(c *record.Seen) {
	c.Put("a", "0123456789")
	src, dst := c.Get("a", unix.O_RDONLY), c.Get("b", unix.O_WRONLY|unix.O_CREAT)
	c.Err("to-reader", unix.IoctlFileClone(c.Get("b", unix.O_RDONLY), src))
	c.Err("to-directory", unix.IoctlFileClone(c.Get(".", unix.O_RDONLY), src))
	c.Must(unix.Ftruncate(dst, 0))
}

func mapping(c *record.Seen, fd, size, prot int) []byte {
	b, err := unix.Mmap(fd, 0, size, prot, unix.MAP_SHARED)
	c.Must(err)
	return b
}

func mmapShared(c *record.Seen) {
	c.Put("f", strings.Repeat("x", 10_000))
	fd := c.Get("f", unix.O_RDWR)
	b := mapping(c, fd, 10_000, unix.PROT_READ|unix.PROT_WRITE)
	copy(b[4096:], "mapped")
	got := make([]byte, 8)
	_, err := unix.Pread(fd, got, 4095)
	c.Err("read", err)
	c.See("data", string(got))
	c.Err("msync", unix.Msync(b, unix.MS_SYNC))
	_, err = unix.Pwrite(fd, []byte("written"), 5000)
	c.Err("pwrite", err)
	c.See("mapped-data", string(b[4999:5008]))
	c.Err("munmap", unix.Munmap(b))
	c.Stat("stat", "f")
}

func mmapAfterClose(c *record.Seen) {
	c.Put("f", strings.Repeat("x", 5_000))
	fd := c.Get("f", unix.O_RDWR)
	b := mapping(c, fd, 5_000, unix.PROT_READ|unix.PROT_WRITE)
	c.Must(unix.Close(fd))
	copy(b, "mapped")
	c.Err("msync", unix.Msync(b, unix.MS_SYNC))
	r := c.Get("f", unix.O_RDONLY)
	got := make([]byte, 8)
	_, err := unix.Read(r, got)
	c.Err("read", err)
	c.See("data", string(got))
	c.Err("rename", unix.Rename("f", "g"))
	copy(b, "again")
	c.Err("munmap", unix.Munmap(b))
	_, err = unix.Pread(r, got, 0)
	c.Err("read2", err)
	c.See("data2", string(got))
}

func mmapAfterUnlink(c *record.Seen) {
	c.Put("f", strings.Repeat("x", 5_000))
	fd := c.Get("f", unix.O_RDWR)
	b := mapping(c, fd, 5_000, unix.PROT_READ|unix.PROT_WRITE)
	c.Must(unix.Unlink("f"))
	copy(b, "mapped")
	got := make([]byte, 8)
	_, err := unix.Pread(fd, got, 0)
	c.Err("read", err)
	c.See("data", string(got))
	c.Err("msync", unix.Msync(b, unix.MS_SYNC))
	c.Must(unix.Close(fd))
	copy(b, "after")
	c.See("data2", string(b[:8]))
	c.Err("munmap", unix.Munmap(b))
}

// mmapCoherent: a reader's mapping sees what a writer writes.
func mmapCoherent(c *record.Seen) {
	c.Put("f", strings.Repeat("x", 5_000))
	r, w := c.Get("f", unix.O_RDONLY), c.Get("f", unix.O_RDWR)
	reading := mapping(c, r, 5_000, unix.PROT_READ)
	c.See("before", string(reading[:4]))
	_, err := unix.Pwrite(w, []byte("abcd"), 0)
	c.Err("pwrite", err)
	c.See("after", string(reading[:4]))
	writing := mapping(c, w, 5_000, unix.PROT_READ|unix.PROT_WRITE)
	copy(writing, "mmap")
	c.See("mapped", string(reading[:4]))
	private, err := unix.Mmap(r, 0, 5_000, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	c.Err("private", err)
	copy(private, "own!")
	c.See("unchanged", string(reading[:4]))
	c.Content("content", "f")
}

func mmapRights(c *record.Seen) {
	c.Put("f", strings.Repeat("x", 5_000))
	try := func(label string, fd, prot, flags int) {
		_, err := unix.Mmap(fd, 0, 4096, prot, flags)
		c.Err(label, err)
	}
	r, w := c.Get("f", unix.O_RDONLY), c.Get("f", unix.O_WRONLY)
	try("reader-write", r, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	try("writer-write", w, unix.PROT_WRITE, unix.MAP_SHARED)
	try("path", c.Get("f", unix.O_PATH), unix.PROT_READ, unix.MAP_SHARED)
	try("directory", c.Get(".", unix.O_RDONLY), unix.PROT_READ, unix.MAP_SHARED)
	b := mapping(c, r, 4096, unix.PROT_READ)
	c.Err("mprotect", unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE))
	try("executable", r, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	try("executable-writer", c.Get("f", unix.O_RDWR), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_SHARED)
}

func fsync(c *record.Seen) {
	c.Put("f", "x")
	for i, flags := range []int{unix.O_RDONLY, unix.O_WRONLY} {
		fd := c.Get("f", flags)
		c.Err(fmt.Sprint("fsync", i), unix.Fsync(fd))
		c.Err(fmt.Sprint("fdatasync", i), unix.Fdatasync(fd))
		c.Err(fmt.Sprint("range", i), unix.SyncFileRange(fd, 0, 1, unix.SYNC_FILE_RANGE_WRITE))
		c.Err(fmt.Sprint("syncfs", i), unix.Syncfs(fd))
		c.Err(fmt.Sprint("advise", i), unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED))
	}
	c.Content("content", "f")
}

func largeFile(c *record.Seen) {
	fd := c.Get("f", unix.O_RDWR|unix.O_CREAT)
	chunk := bytes.Repeat([]byte("0123456789abcdef"), 65536) // 1 MiB
	for range 5 {
		n, err := unix.Write(fd, chunk)
		c.Must(err)
		if n != len(chunk) {
			c.See("short", n)
		}
	}
	c.Fstat("stat", fd)
	again := c.Get("f", unix.O_RDWR)
	_, err := unix.Pwrite(again, []byte("changed"), 3<<20)
	c.Err("pwrite", err)
	b := make([]byte, 9)
	_, err = unix.Pread(fd, b, 3<<20-1)
	c.Err("read", err)
	c.See("data", string(b))
	_, err = unix.Pwrite(again, []byte("far"), 1<<26)
	c.Err("far", err)
	c.Fstat("far-stat", fd)
}

func readahead(c *record.Seen) {
	c.Put("f", strings.Repeat("x", 100_000))
	fd := c.Get("f", unix.O_RDONLY)
	_, _, e := unix.Syscall(unix.SYS_READAHEAD, uintptr(fd), 0, 50_000)
	c.Err("readahead", record.NoError(e))
	b := make([]byte, 200_000)
	n, err := unix.Read(fd, b)
	c.Err("read", err)
	c.See("n", n)
}

func sparse(c *record.Seen) {
	fd := c.Get("f", unix.O_RDWR|unix.O_CREAT)
	_, err := unix.Pwrite(fd, []byte("x"), 1<<26)
	c.Err("pwrite", err)
	c.Must(unix.Fsync(fd))
	var st unix.Stat_t
	c.Must(unix.Fstat(fd, &st))
	c.See("sparse", st.Blocks < 1000)
	c.See("size", st.Size)
	again := c.Open("again", "f", unix.O_RDWR, 0)
	_, err = unix.Pwrite(again, []byte("y"), 1<<25)
	c.Err("middle", err)
	c.Must(unix.Fsync(again))
	c.Must(unix.Fstat(again, &st))
	c.See("still-sparse", st.Blocks < 1000)
}
