package undolog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// xattrs skips where the file system has no user attributes.
func xattrs(t *testing.T, path, attr, value string) {
	t.Helper()
	err := unix.Setxattr(path, attr, []byte(value), 0)
	if errors.Is(err, unix.EOPNOTSUPP) {
		require.Missing(t, "user xattrs in the temporary directory", "set TMPDIR to a directory on ext4, xfs or btrfs")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// rollbackCase is a step whose undo must restore the folder exactly, and whose
// redo must do it again.
type rollbackCase struct {
	name  string
	fill  func(t *testing.T, work string) // in addition to small
	step  func(a *applier) error
	paths []string // affected, sorted; nil: do not check
}

func TestUI(t *testing.T) {
	for _, c := range rollbackCases() {
		t.Run(c.name, func(t *testing.T) {
			e := newSession(t, func(work string) {
				small(t)(work)
				if c.fill != nil {
					c.fill(t, work)
				}
			})
			before := e.snap()
			entry := e.step(c.step)
			if entry == nil {
				t.Fatal("the step left no entry")
			}
			if c.paths != nil && !slices.Equal(entry.AffectedPaths, c.paths) {
				t.Errorf("affected paths %q, want %q", entry.AffectedPaths, c.paths)
			}
			after := e.snap()
			e.undoN(1)
			e.equal(before)
			if h := e.history(); len(h) != 0 {
				t.Errorf("history after undo: %+v", h)
			}
			e.redoN(1)
			e.equalButLinks(after)
			e.undoN(1)
			e.equal(before)
		})
	}
}

func rollbackCases() []rollbackCase {
	data := []byte("changed")
	big := bytes.Repeat([]byte("new!"), 50<<10)
	return slices.Concat([]rollbackCase{
		{name: "UI-01 write thrice", step: func(a *applier) error {
			return run(func() error { return a.WriteAt("b.txt", data, 0) },
				func() error { return a.WriteAt("b.txt", data, 3) },
				func() error { return a.WriteAt("b.txt", big, 1) })
		}, paths: []string{"b.txt"}},
		{name: "UI-02 create", step: func(a *applier) error { return a.WriteFile("new", data) }, paths: []string{"new"}},
		{name: "UI-03 create directories", step: func(a *applier) error {
			return run(func() error { return a.MkdirAll("x/y/z") }, func() error { return a.WriteFile("x/y/z/f", data) })
		}, paths: []string{"x", "x/y", "x/y/z", "x/y/z/f"}},
		{name: "UI-04 delete", fill: func(t *testing.T, work string) {
			xattrs(t, filepath.Join(work, "b.txt"), "user.k", "v")
		}, step: func(a *applier) error { return a.Unlink("b.txt") }, paths: []string{"b.txt"}},
		{name: "UI-05 delete everything", step: func(a *applier) error { return a.RemoveAll(".") }},
		{name: "UI-06 rename", step: func(a *applier) error { return a.Rename("b.txt", "dir/c", 0) }, paths: []string{"b.txt", "dir/c"}},
		{name: "UI-07 rename over", step: func(a *applier) error { return a.Rename("b.txt", "big", 0) }, paths: []string{"b.txt", "big"}},
		{name: "UI-08 rename directory", step: func(a *applier) error {
			return run(func() error { return a.Rename("dir", "moved", 0) },
				func() error { return a.WriteAt("moved/sub/deep/g", data, 10) },
				func() error { return a.Unlink("moved/f") })
		}, paths: []string{"dir", "dir/f", "moved", "moved/sub/deep/g"}},
		{name: "UI-09 open with O_TRUNC", step: func(a *applier) error { return a.WriteFile("big", data) }, paths: []string{"big"}},
		{name: "UI-10 truncate", step: func(a *applier) error { return a.Truncate("big", 100_000) }, paths: []string{"big"}},
		{name: "UI-11 chmod", step: func(a *applier) error {
			return run(func() error { return a.Chmod("b.txt", 0o755) }, func() error { return a.Chmod("dir", 0o1700) })
		}, paths: []string{"b.txt", "dir"}},
		{name: "UI-12 set xattr", fill: func(t *testing.T, work string) {
			xattrs(t, filepath.Join(work, "b.txt"), "user.old", "before")
		}, step: func(a *applier) error {
			return run(func() error { return a.SetXattr("b.txt", "user.new", data) },
				func() error { return a.SetXattr("b.txt", "user.old", data) })
		}},
		{name: "UI-13 remove xattr", fill: func(t *testing.T, work string) {
			xattrs(t, filepath.Join(work, "b.txt"), "user.old", "before")
			xattrs(t, filepath.Join(work, "dir"), "user.d", "of a directory")
		}, step: func(a *applier) error {
			return run(func() error { return a.RemoveXattr("b.txt", "user.old") },
				func() error { return a.RemoveXattr("dir", "user.d") })
		}},
		{name: "UI-14 fallocate", step: func(a *applier) error {
			h, err := a.Open("b.txt")
			if err != nil {
				return err
			}
			defer h.Close()
			return h.Fallocate(0, 0, 1<<20)
		}},
		{name: "UI-14 punch and collapse", step: func(a *applier) error {
			h, err := a.Open("big")
			if err != nil {
				return err
			}
			defer h.Close()
			return run(func() error { return h.Fallocate(unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 70_000, 200_000) },
				func() error { return h.Fallocate(unix.FALLOC_FL_ZERO_RANGE, 500_000, 10) },
				func() error {
					return ignore(h.Fallocate(unix.FALLOC_FL_COLLAPSE_RANGE, 64<<10, 64<<10), unix.EOPNOTSUPP)
				})
		}},
		{name: "UI-15 copy range", step: func(a *applier) error {
			src, err := a.Open("a.txt")
			if err != nil {
				return err
			}
			defer src.Close()
			dst, err := a.Open("big")
			if err != nil {
				return err
			}
			defer dst.Close()
			return dst.CopyFrom(src, 0, 300_000, 5)
		}, paths: []string{"big"}},
		{name: "UI-23 hard links", step: func(a *applier) error {
			return run(func() error { return a.Link("b.txt", "dir/b2") },
				func() error { return a.WriteAt("dir/hard", data, 0) },
				func() error { return a.Unlink("a.txt") },
				func() error { return a.Rename("dir/hard", "dir/harder", 0) })
		}},
		{name: "UI-23 all names removed", step: func(a *applier) error {
			return run(func() error { return a.Unlink("a.txt") }, func() error { return a.Unlink("dir/hard") })
		}},
		{name: "UI-24 symlinks", step: func(a *applier) error {
			return run(func() error { return a.Unlink("link") }, func() error { return a.Symlink("b.txt", "link") },
				func() error { return a.Rename("dir/dangling", "empty/dangling", 0) })
		}, paths: []string{"dir/dangling", "empty/dangling", "link"}},
	}, hardCases(data, big))
}

// hardCases are those in which paths are no identity.
func hardCases(data, big []byte) []rollbackCase {
	return []rollbackCase{
		{name: "move a directory, then replace it", step: func(a *applier) error {
			return run(func() error { return a.Rename("dir", "e", 0) },
				func() error { return a.WriteFile("dir", data) },
				func() error { return a.WriteAt("e/f", data, 0) },
				func() error { return a.Rename("e/sub", "empty/sub", 0) },
				func() error { return a.RemoveAll("e") })
		}},
		{name: "move old things into new directories", step: func(a *applier) error {
			return run(func() error { return a.MkdirAll("n/m") },
				func() error { return a.Rename("b.txt", "n/m/b", 0) },
				func() error { return a.Rename("dir/sub", "n/s", 0) },
				func() error { return a.Rename("n", "q", 0) },
				func() error { return a.WriteAt("q/m/b", data, 0) },
				func() error { return a.Unlink("q/s/h") },
				func() error { return a.Mkdir("r", 0o700) },
				func() error { return a.Rename("q/m", "r/m", 0) })
		}},
		{name: "exchange", step: func(a *applier) error {
			return run(func() error { return a.Rename("b.txt", "dir/f", unix.RENAME_EXCHANGE) },
				func() error { return a.Rename("empty", "dir/sub", unix.RENAME_EXCHANGE) },
				func() error { return a.WriteAt("b.txt", data, 0) },
				func() error { return a.WriteFile("dir/sub/x", data) },
				func() error { return a.Mkdir("n", 0o755) },
				func() error { return a.Rename("n", "empty", unix.RENAME_EXCHANGE) })
		}},
		{name: "rotate names", step: func(a *applier) error {
			return run(func() error { return a.Rename("a.txt", "tmp", 0) },
				func() error { return a.Rename("b.txt", "a.txt", 0) },
				func() error { return a.Rename("tmp", "b.txt", 0) })
		}},
		{name: "replace by temporary file", step: func(a *applier) error {
			return run(func() error { return a.WriteFile("b.tmp", data) },
				func() error { return a.Rename("b.tmp", "b.txt", 0) },
				func() error { return a.WriteFile("b.tmp", big) },
				func() error { return a.Rename("b.tmp", "b.txt", 0) })
		}},
		{name: "replace an empty directory", step: func(a *applier) error {
			return run(func() error { return a.Rename("dir/sub", "empty", 0) })
		}},
		{name: "remove, make again, fill", step: func(a *applier) error {
			return run(func() error { return a.RemoveAll("dir") },
				func() error { return a.MkdirAll("dir/sub") },
				func() error { return a.WriteFile("dir/f", big) },
				func() error { return a.WriteFile("dir/sub/deep", data) })
		}},
		{name: "write through handles of removed files", step: func(a *applier) error {
			h, err := a.Open("big")
			if err != nil {
				return err
			}
			defer h.Close()
			return run(func() error { return a.Unlink("big") },
				func() error { return h.WriteAt(data, 5) },
				func() error { return h.Chmod(0o600) },
				func() error { return h.Truncate(17) },
				func() error { return a.WriteFile("big", data) })
		}},
		{name: "O_TMPFILE and link", step: func(a *applier) error {
			h, err := a.Tmpfile("dir", 0o644)
			if err != nil {
				return err
			}
			defer h.Close()
			return run(func() error { return h.WriteAt(data, 0) }, func() error { return h.Link("dir/tmp") })
		}},
		{name: "sparse file", fill: func(t *testing.T, work string) {
			f, err := os.Create(filepath.Join(work, "sparse"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			_, err = f.WriteAt([]byte("island"), 3<<20)
			if err = errors.Join(err, f.Truncate(8<<20)); err != nil {
				t.Fatal(err)
			}
		}, step: func(a *applier) error {
			return run(func() error { return a.WriteAt("sparse", data, 1<<20) }, func() error { return a.Truncate("sparse", 10) })
		}},
		{name: "grow, shrink, grow", step: func(a *applier) error {
			return run(func() error { return a.WriteAt("big", data, 2<<20) },
				func() error { return a.Truncate("big", 300_000) },
				func() error { return a.WriteAt("big", big, 290_000) })
		}},
		{name: "special files and modes", fill: func(t *testing.T, work string) {
			if err := errors.Join(unix.Mkfifo(filepath.Join(work, "pipe"), 0o620), unix.Chmod(filepath.Join(work, "empty"), 0o3711),
				unix.Chmod(filepath.Join(work, "b.txt"), 0o6755)); err != nil {
				t.Fatal(err)
			}
		}, step: func(a *applier) error {
			return run(func() error { return a.Unlink("pipe") }, func() error { return a.Mkfifo("pipe", 0o600) },
				func() error { return a.Rmdir("empty") }, func() error { return a.Chmod("b.txt", 0o600) },
				func() error { return a.Utimes("big", 12345) })
		}},
		{name: "names of any bytes", fill: func(t *testing.T, work string) {
			mustWrite(t, filepath.Join(work, "new\nline"), "1")
			mustWrite(t, filepath.Join(work, "\xff\xfe"), "2")
			mustWrite(t, filepath.Join(work, strings.Repeat("n", 255)), "3")
		}, step: func(a *applier) error {
			return run(func() error { return a.Unlink("new\nline") }, func() error { return a.WriteAt("\xff\xfe", data, 0) },
				func() error { return a.Rename(strings.Repeat("n", 255), strings.Repeat("m", 255), 0) },
				func() error { return a.WriteFile("dir/\x80\n\t\"", data) })
		}},
		{name: "unreadable files", fill: func(t *testing.T, work string) {
			mustWrite(t, filepath.Join(work, "secret"), "nobody may read")
			if err := errors.Join(os.Chmod(filepath.Join(work, "secret"), 0o200), os.Chmod(filepath.Join(work, "empty"), 0)); err != nil {
				t.Fatal(err)
			}
		}, step: func(a *applier) error {
			return run(func() error { return a.Chmod("secret", 0o300) },
				func() error { return writeOnly(a, "secret", data) }, func() error { return a.Rmdir("empty") })
		}},
		{name: "only a temporary file", step: func(a *applier) error {
			return run(func() error { return a.WriteFile("dir/tmp", data) }, func() error { return a.Unlink("dir/tmp") })
		}, paths: []string{"dir"}},
		{name: "metadata of the root", step: func(a *applier) error { return a.Chmod(".", 0o711) }, paths: []string{"."}},
	}
}

// writeOnly writes to a file that may not be read.
func writeOnly(a *applier, path string, data []byte) error {
	h, err := a.OpenFor(path, unix.O_WRONLY)
	if err != nil {
		return err
	}
	return errors.Join(h.WriteAt(data, 0), h.Close())
}

func TestUI16_MultiStep(t *testing.T) {
	e := newSession(t, small(t))
	s0 := e.snap()
	e.step(func(a *applier) error { return a.WriteAt("b.txt", []byte("one"), 0) })
	s1 := e.snap()
	e.step(func(a *applier) error {
		return run(func() error { return a.WriteAt("b.txt", []byte("two"), 1) }, func() error { return a.Rename("dir", "d2", 0) })
	})
	s2 := e.snap()
	e.step(func(a *applier) error { return a.RemoveAll(".") })
	s3 := e.snap()
	e.undoN(1)
	e.equal(s2)
	e.undoN(1)
	e.equal(s1)
	e.redoN(2)
	e.equal(s3)
	e.undoN(3)
	e.equal(s0)
}

func TestUI16_WriteThroughHandleOfAnOlderStep(t *testing.T) {
	e := newSession(t, small(t))
	s0 := e.snap()
	h, err := e.a.Open("big")
	e.must(err)
	defer h.Close()
	e.step(func(a *applier) error { return a.Unlink("big") })
	s1 := e.snap()
	e.step(func(a *applier) error { return h.WriteAt([]byte("late"), 100_000) })
	e.undoN(1)
	e.equal(s1)
	e.undoN(1)
	e.equal(s0)
}

// TestUI17_NotKept: a file that would take more than a step may keep is left by its undo, by name. All else of
// the step comes back: what was changed before it, after it, and removed.
func TestUI17_NotKept(t *testing.T) {
	much := make([]byte, 900_000)
	for name, change := range map[string]func(a *applier) error{
		"written":   func(a *applier) error { return a.WriteAt("big", much, 0) },
		"truncated": func(a *applier) error { return a.Truncate("big", 0) },
		"written and renamed": func(a *applier) error {
			return run(func() error { return a.WriteAt("big", much, 0) }, func() error { return a.Rename("big", "dir/large", 0) })
		},
		"written and removed": func(a *applier) error {
			return run(func() error { return a.WriteAt("big", much, 0) }, func() error { return a.Unlink("big") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newSession(t, small(t), func(o *Options) { o.StepBytes = 100 << 10 })
			before := treesnap.MustTake(t, e.work)
			entry := e.step(func(a *applier) error {
				return run(func() error { return a.WriteAt("b.txt", []byte("x"), 0) },
					func() error { return change(a) },
					func() error { return a.WriteAt("dir/f", []byte("y"), 0) },
					func() error { return a.Unlink("a.txt") })
			})
			if entry == nil || entry.Unprotected || entry.NotKeptCount != 1 || !slices.Equal(entry.NotKept, []string{"big"}) || !e.warned(WarnNotKept) {
				t.Fatalf("entry %+v, warnings %+v", entry, e.warnings)
			}
			changed := treesnap.MustTake(t, e.work)
			var diff bytes.Buffer
			e.must(e.log.Diff(context.Background(), entry.StepID, &diff))
			if err := e.log.Content(context.Background(), entry.StepID, "big", false, &diff); !errors.Is(err, ErrDamaged) {
				t.Errorf("what big was: %v", err)
			}
			res, err := e.log.Undo(context.Background(), UndoOptions{})
			e.must(err)
			if res.LeftCount != 1 || res.Left[0].Path != "big" || res.Left[0].What != "content" {
				t.Fatalf("left: %+v", res.Left)
			}
			after := treesnap.MustTake(t, e.work)
			if diff := treesnap.Diff(before, after, butBig); len(diff) > 0 || after.Line("big") == "" {
				t.Errorf("after the undo: %v", diff)
			}
			if _, err := e.log.Redo(context.Background(), UndoOptions{}); err != nil {
				t.Fatal(err)
			}
			treesnap.Same(t, "redone", changed, treesnap.MustTake(t, e.work))
			res, err = e.log.Undo(context.Background(), UndoOptions{})
			if err != nil || res.LeftCount != 1 || !res.Left[0].NotKept {
				t.Fatalf("undone again: %+v, %v", res, err)
			}
		})
	}
}

// butBig compares all but the file big, which is too large to be kept.
var butBig = treesnap.Options{IgnoreLinks: true, Exclude: func(path string) bool { return path == "big" }}

// TestUI17_NotKeptElsewhere: the same where a removed file has to be copied, because the log is on another file
// system: its name cannot come back, all others do.
func TestUI17_NotKeptElsewhere(t *testing.T) {
	other, err := os.MkdirTemp("/dev/shm", "undo")
	var here, there unix.Stat_t
	if err != nil || unix.Stat(other, &there) != nil || unix.Stat(t.TempDir(), &here) != nil || here.Dev == there.Dev {
		require.Missing(t, "/dev/shm and the temporary directory on two file systems", "mount -t tmpfs shm /dev/shm, and set TMPDIR to a directory on a disk")
	}
	t.Cleanup(func() { os.RemoveAll(other) })
	e := newSession(t, small(t), func(o *Options) { o.StepBytes, o.Dir = 100<<10, filepath.Join(other, "log") })
	before := treesnap.MustTake(t, e.work)
	entry := e.step(func(a *applier) error { return a.RemoveAll(".") })
	if entry == nil || entry.Unprotected || !slices.Equal(entry.NotKept, []string{"big"}) {
		t.Fatalf("%+v", entry)
	}
	res, err := e.log.Undo(context.Background(), UndoOptions{})
	e.must(err)
	if res.LeftCount != 1 || res.Left[0].Path != "big" {
		t.Fatalf("left: %+v", res.Left)
	}
	after := treesnap.MustTake(t, e.work)
	delete(after.Entries, ".")
	delete(before.Entries, ".")
	if diff := treesnap.Diff(before, after, butBig); len(diff) > 0 {
		t.Error(diff)
	}
}

func TestUI17_AdoptionDoesNotCount(t *testing.T) {
	e := newSession(t, small(t), func(o *Options) { o.StepBytes = 100 << 10 })
	before := e.snap()
	if entry := e.step(func(a *applier) error { return a.RemoveAll(".") }); entry.Unprotected {
		t.Fatal("removing without a copy made the step unprotected")
	}
	e.undoN(1)
	e.equal(before)
}

func TestUI23_WriterOfOneNameProtectsAll(t *testing.T) {
	e := newSession(t, small(t))
	e.begin()
	e.must(e.a.WriteAt("a.txt", []byte("x"), 0))
	st, err := hostfs.StatAt(e.root.FD(), "a.txt")
	e.must(err)
	e.must(e.a.WriteAt("dir/hard", []byte("y"), 1))
	now, err := hostfs.StatAt(e.root.FD(), "a.txt")
	e.must(err)
	if st.ID != now.ID || now.Nlink != 2 {
		t.Fatalf("%+v, %+v", st, now)
	}
	if entry := e.commit(); entry.AffectedCount != 1 {
		t.Fatalf("%+v", entry.AffectedPaths)
	}
}

func TestSymlinkPolicies(t *testing.T) {
	ro := newSession(t, small(t), func(o *Options) { o.Symlinks = SymlinkReadOnly })
	before := ro.snap()
	ro.begin()
	if err := ro.a.Symlink("x", "new"); !errors.Is(err, unix.EPERM) {
		t.Errorf("symlink under read-only: %v", err)
	}
	ro.must(ro.a.Unlink("link"))
	ro.commit()
	ro.undoN(1)
	ro.equal(before)

	ign := newSession(t, small(t), func(o *Options) { o.Symlinks = SymlinkIgnore })
	if e := ign.step(func(a *applier) error {
		return run(func() error { return a.Unlink("link") }, func() error { return a.Symlink("x", "new") })
	}); e != nil {
		t.Errorf("ignored symlinks made a step: %+v", e)
	}
}

func TestGitignore(t *testing.T) {
	e := newSession(t, func(work string) {
		small(t)(work)
		mustWrite(t, filepath.Join(work, ".gitignore"), "*.o\n/build/\ntmp[[:digit:]]\n")
		mustWrite(t, filepath.Join(work, "dir/.gitignore"), "!keep.o\n")
		mustWrite(t, filepath.Join(work, "x.o"), "object")
		mustWrite(t, filepath.Join(work, "dir/keep.o"), "kept")
		mustWrite(t, filepath.Join(work, "build/out/prog"), "binary")
	}, func(o *Options) { o.Gitignore = true })
	if entry := e.step(func(a *applier) error {
		return run(func() error { return a.WriteAt("x.o", []byte("y"), 0) }, func() error { return a.Unlink("build/out/prog") },
			func() error { return a.WriteFile("build/new", []byte("n")) }, func() error { return a.RemoveAll("build") },
			func() error { return a.WriteFile("tmp1", []byte("n")) })
	}); entry != nil {
		t.Fatalf("ignored paths made a step: %+v", entry)
	}
	e.must(os.Mkdir(filepath.Join(e.work, "build"), 0o755))
	before := e.snap()
	entry := e.step(func(a *applier) error {
		return run(func() error { return a.Unlink("dir/keep.o") }, func() error { return a.Rename("x.o", "x.txt", 0) },
			func() error { return a.Rename("b.txt", "build/b", 0) })
	})
	if want := []string{"b.txt", "build/b", "dir/keep.o", "x.o", "x.txt"}; !slices.Equal(entry.AffectedPaths, want) {
		t.Errorf("affected %q, want %q", entry.AffectedPaths, want)
	}
	e.undoN(1)
	e.equal(before)
}
