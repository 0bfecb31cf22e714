package posix

import (
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// contentCases change what is in files. They run in a tree of fixture.Small and
// fixture.Odd.
var contentCases = []testCase{
	{"append", func(r *recorder) {
		r.with("small.txt", unix.O_WRONLY|unix.O_APPEND, func(fd int) {
			_, err := unix.Write(fd, []byte(" and more"))
			r.err("write", err)
		})
		r.file("small.txt")
		r.stat("small.txt")
	}},
	{"write in place", func(r *recorder) {
		r.with("large.bin", unix.O_RDWR, func(fd int) {
			for _, off := range []int64{0, 65535, 500_000, 999_999} {
				_, err := unix.Pwrite(fd, []byte("!!"), off)
				r.err("pwrite", err)
			}
		})
		r.stat("large.bin")
	}},
	{"write far beyond the end", func(r *recorder) {
		r.with("small.txt", unix.O_WRONLY, func(fd int) {
			_, err := unix.Pwrite(fd, []byte("x"), 5<<20)
			r.err("pwrite", err)
		})
		r.stat("small.txt")
	}},
	{"open with O_TRUNC", func(r *recorder) {
		r.with("large.bin", unix.O_WRONLY|unix.O_TRUNC, func(int) {})
		r.stat("large.bin")
	}},
	{"open with O_TRUNC, read-only", func(r *recorder) {
		r.with("small.txt", unix.O_RDONLY|unix.O_TRUNC, func(int) {})
		r.stat("small.txt")
	}},
	{"creat over an existing file", func(r *recorder) {
		r.with("run.sh", unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, func(fd int) {
			_, err := unix.Write(fd, []byte("new"))
			r.err("write", err)
		})
		r.stat("run.sh")
		r.file("run.sh")
	}},
	{"truncate", func(r *recorder) {
		r.err("shorter", unix.Truncate("large.bin", 70_000))
		r.err("longer", unix.Truncate("large.bin", 200_000))
		r.err("from nothing", unix.Truncate("empty.txt", 12345))
		r.err("a directory", unix.Truncate("src", 0))
		r.err("negative", unix.Truncate("small.txt", -1))
		r.with("large.bin", unix.O_RDONLY, func(fd int) {
			b := make([]byte, 4)
			_, err := unix.Pread(fd, b, 100_000)
			r.err("pread", err)
			r.see("grown again", b)
		})
		r.stat("large.bin")
		r.stat("empty.txt")
	}},
	{"fallocate", func(r *recorder) {
		for _, c := range []struct {
			name     string
			mode     uint32
			off, len int64
		}{
			{"extend", 0, 0, 1_500_000},
			{"keep size", unix.FALLOC_FL_KEEP_SIZE, 2_000_000, 100_000},
			{"punch", unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE, 100_000, 200_000},
			{"zero", unix.FALLOC_FL_ZERO_RANGE, 400_000, 50_000},
			{"collapse", unix.FALLOC_FL_COLLAPSE_RANGE, 65536, 65536},
			{"insert", unix.FALLOC_FL_INSERT_RANGE, 131072, 65536},
		} {
			r.with("large.bin", unix.O_RDWR, func(fd int) {
				r.err(c.name, unix.Fallocate(fd, c.mode, c.off, c.len))
			})
			r.stat("large.bin")
		}
	}},
	{"copy_file_range", func(r *recorder) {
		r.with("large.bin", unix.O_RDONLY, func(in int) {
			r.with("medium.txt", unix.O_WRONLY, func(out int) {
				from, to := int64(1000), int64(100)
				n, err := unix.CopyFileRange(in, &from, out, &to, 300_000, 0)
				r.err("copy_file_range", err)
				r.see("n", n)
			})
		})
		r.stat("medium.txt")
	}},
	{"sendfile", func(r *recorder) {
		r.with("large.bin", unix.O_RDONLY, func(in int) {
			r.with("medium.txt", unix.O_WRONLY, func(out int) {
				_, err := unix.Sendfile(out, in, nil, 100_000)
				r.err("sendfile", err)
			})
		})
		r.stat("medium.txt")
	}},
	{"shared mapping", func(r *recorder) {
		r.with("large.bin", unix.O_RDWR, func(fd int) {
			m, err := unix.Mmap(fd, 0, 1_000_000, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if !r.err("mmap", err) {
				return
			}
			copy(m[300_000:], "through a mapping")
			r.err("msync", unix.Msync(m, unix.MS_SYNC))
			copy(m[900_000:], "and without msync")
			r.err("munmap", unix.Munmap(m))
		})
	}},
	{"mapping left to the exit", func(r *recorder) {
		r.with("large.bin", unix.O_RDWR, func(fd int) {
			m, err := unix.Mmap(fd, 0, 1_000_000, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if r.err("mmap", err) {
				copy(m[123_456:], "still dirty when the process ends")
			}
		})
	}},
	{"concurrent appends", func(r *recorder) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				f, err := os.OpenFile("small.txt", os.O_WRONLY|os.O_APPEND, 0)
				if err != nil {
					return
				}
				defer f.Close()
				for range 50 {
					_, _ = f.WriteString("0123456789")
				}
			})
		}
		wg.Wait()
		r.stat("small.txt")
	}},
	{"through an unlinked name", func(r *recorder) {
		r.with("large.bin", unix.O_RDWR, func(fd int) {
			r.err("unlink", unix.Unlink("large.bin"))
			_, err := unix.Pwrite(fd, []byte("after the unlink"), 10)
			r.err("pwrite", err)
			r.err("ftruncate", unix.Ftruncate(fd, 40))
			r.err("fchmod", unix.Fchmod(fd, 0o600))
			b := make([]byte, 16)
			_, err = unix.Pread(fd, b, 10)
			r.err("pread", err)
			r.see("content", string(b))
			var st unix.Stat_t
			r.err("fstat", unix.Fstat(fd, &st))
			r.see("links, size, mode", []uint64{uint64(st.Nlink), uint64(st.Size), uint64(st.Mode)})
			again, err := os.Open("/proc/self/fd/" + itoa(fd))
			if r.err("reopen", err) {
				b, err := io.ReadAll(again)
				r.err("read", err)
				r.see("n", len(b))
				again.Close()
			}
		})
		r.stat("large.bin")
	}},
	{"after a rename over it", func(r *recorder) {
		r.with("small.txt", unix.O_RDWR, func(fd int) {
			r.err("rename", unix.Rename("medium.txt", "small.txt"))
			_, err := unix.Write(fd, []byte("to the replaced file"))
			r.err("write", err)
		})
		r.stat("small.txt")
		r.stat("medium.txt")
	}},
	{"through the other hard link", func(r *recorder) {
		r.with("pair-a", unix.O_WRONLY|unix.O_APPEND, func(fd int) {
			_, err := unix.Write(fd, []byte(", changed"))
			r.err("write", err)
		})
		r.file("pair-b")
		r.with("hard/er/three", unix.O_WRONLY|unix.O_TRUNC, func(int) {})
		r.stat("hard/one")
	}},
	{"below a moved directory", func(r *recorder) {
		r.with("src/main.rs", unix.O_WRONLY|unix.O_APPEND, func(fd int) {
			r.err("rename", unix.Rename("src", "moved"))
			_, err := unix.Write(fd, []byte("// appended"))
			r.err("write", err)
			r.with("moved/components/app.rs", unix.O_WRONLY|unix.O_TRUNC, func(int) {})
			r.err("mkdir in its place", unix.Mkdir("src", 0o755))
			r.with("src/main.rs", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, func(int) {})
		})
		r.file("moved/main.rs")
		r.list("src")
	}},
	{"sparse file", func(r *recorder) {
		r.with("sparse", unix.O_RDWR, func(fd int) {
			hole, err := unix.Seek(fd, 0, unix.SEEK_HOLE)
			r.err("SEEK_HOLE", err)
			r.see("first hole", hole)
			_, err = unix.Pwrite(fd, []byte("filled"), 2<<20)
			r.err("pwrite", err)
		})
		r.stat("sparse")
	}},
	{"O_DIRECT and O_SYNC", func(r *recorder) {
		r.with("small.txt", unix.O_WRONLY|unix.O_SYNC, func(fd int) {
			_, err := unix.Write(fd, []byte("synced"))
			r.err("write", err)
			r.err("fsync", unix.Fsync(fd))
			r.err("fdatasync", unix.Fdatasync(fd))
		})
		r.with("src", unix.O_RDONLY|unix.O_DIRECTORY, func(fd int) { r.err("fsync of a directory", unix.Fsync(fd)) })
		r.file("small.txt")
	}},
	{"many small files", func(r *recorder) {
		r.err("mkdir", unix.Mkdir("many", 0o755))
		for i := range 500 {
			if err := os.WriteFile("many/f"+itoa(i), []byte(strings.Repeat("z", i)), 0o644); err != nil {
				r.err("write", err)
			}
		}
		for i := range 250 {
			if err := os.Remove("many/f" + itoa(2*i)); err != nil {
				r.err("remove", err)
			}
		}
		r.list("many")
	}},
}
