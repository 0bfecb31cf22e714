package actors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
)

// What commands of a real kernel have written is what the facade reads, lists,
// finds and searches, at once.
func TestFilesSeeWhatCommandsDid(t *testing.T) {
	l := kernel(t)
	l.output(`mkdir -p src/deep; printf 'one\ntwo\nthree\n' >src/a.txt; printf 'two\n' >src/deep/b.txt; printf 'two\0' >src/bin.dat
		ln -s a.txt src/link; ln -s /etc src/out; chmod 640 src/a.txt; rm dir/f1`)
	ctx := t.Context()
	c, err := l.s.ReadFile(ctx, api.ReadFileRequest{Path: "src/a.txt", Offset: 4, Limit: 3})
	if err != nil || string(c.Data) != "two" || c.Size != 14 || c.Offset != 4 || !c.Truncated || c.Mode != 0o640 {
		t.Errorf("read: %+v, %v", c, err)
	}
	if c, err = l.s.ReadFile(ctx, api.ReadFileRequest{Path: filepath.Join(l.dirs[0], "src/link")}); err != nil || string(c.Data) != "one\ntwo\nthree\n" || c.Truncated {
		t.Errorf("read a link by its absolute path: %+v, %v", c, err)
	}
	list, err := l.s.List(ctx, api.ListRequest{Path: "src", Depth: 2})
	var names []string
	for _, e := range list.Entries {
		names = append(names, e.Type+" "+e.Path)
	}
	if want := "file src/a.txt, file src/bin.dat, directory src/deep, file src/deep/b.txt, symlink src/link, symlink src/out"; err != nil || strings.Join(names, ", ") != want {
		t.Errorf("list: %q, %v", names, err)
	}
	found, err := l.s.Glob(ctx, api.GlobRequest{Pattern: "**/*.txt"})
	slices.Sort(found.Paths)
	if err != nil || strings.Join(found.Paths, " ") != "src/a.txt src/deep/b.txt" {
		t.Errorf("glob: %+v, %v", found, err)
	}
	for mode, want := range map[api.GrepMode]string{
		api.GrepFiles: "files src/a.txt src/deep/b.txt", api.GrepCount: "counts src/a.txt:1 src/deep/b.txt:1", api.GrepContent: "lines src/a.txt:2:two src/deep/b.txt:1:two",
	} {
		r, err := l.s.Grep(ctx, api.GrepRequest{Pattern: "^t?wo$", Mode: mode})
		got := map[api.GrepMode]string{api.GrepFiles: "files", api.GrepCount: "counts", api.GrepContent: "lines"}[mode]
		for _, f := range r.Files {
			got += " " + f
		}
		for _, n := range r.Counts {
			got += fmt.Sprintf(" %s:%d", n.Path, n.Count)
		}
		for _, m := range r.Matches {
			got += fmt.Sprintf(" %s:%d:%s", m.Path, m.Line, m.Text)
		}
		if err != nil || got != want || r.Binary != 1 {
			t.Errorf("grep %s: %s, %+v, %v", mode, got, r, err)
		}
	}
	for path, want := range map[string]error{
		"missing": fs.ErrNotExist, "dir/f1": fs.ErrNotExist, "src": api.ErrNotRegular, "src/out/passwd": api.ErrOutside, "../undo/version": api.ErrOutside, "/etc/passwd": api.ErrOutside,
	} {
		if _, err := l.s.ReadFile(ctx, api.ReadFileRequest{Path: path}); !errors.Is(err, want) {
			t.Errorf("read %s: %v, want %v", path, err, want)
		}
	}
	// What an undo puts back is there at once, too.
	if _, err := l.s.Undo(ctx, api.UndoRequest{Count: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.s.List(ctx, api.ListRequest{Path: "src"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("list what was undone: %v", err)
	}
	if c, err := l.s.ReadFile(ctx, api.ReadFileRequest{Path: "dir/f1"}); err != nil || string(c.Data) != "content of dir/f1" {
		t.Errorf("read what was put back: %+v, %v", c, err)
	}
}

// Each request names its folder, and says so when there is none or nothing runs.
func TestFilesOfSeveralFolders(t *testing.T) {
	l := newLab(t, 2, func(c *api.Config) {
		c.Directories[1].Label, c.Directories[1].ReadOnly, c.Directories[1].UndoDir = "lib", true, ""
	})
	put(t, filepath.Join(l.dirs[1], "only"), "needle\n")
	calls := func(dir string) map[string]error {
		_, e1 := l.s.ReadFile(t.Context(), api.ReadFileRequest{Directory: dir, Path: "only"})
		list, e2 := l.s.List(t.Context(), api.ListRequest{Directory: dir})
		if e2 == nil && len(list.Entries) != 5 {
			t.Errorf("list of %q: %+v", dir, list)
		}
		found, e3 := l.s.Glob(t.Context(), api.GlobRequest{Directory: dir, Pattern: "on*"})
		if e3 == nil && len(found.Paths) != 1 {
			t.Errorf("glob in %q: %+v", dir, found)
		}
		r, e4 := l.s.Grep(t.Context(), api.GrepRequest{Directory: dir, Pattern: "needle"})
		if e4 == nil && len(r.Files) != 1 {
			t.Errorf("grep in %q: %+v", dir, r)
		}
		return map[string]error{"read": e1, "list": e2, "glob": e3, "grep": e4}
	}
	for _, dir := range []string{"1", "lib", l.dirs[1]} {
		for call, err := range calls(dir) {
			if err != nil {
				t.Errorf("%s in %q: %v", call, dir, err)
			}
		}
	}
	for _, dir := range []string{"2", "other", "/", "-1"} {
		for call, err := range calls(dir) {
			if !errors.Is(err, messages.ErrNoDirectory) {
				t.Errorf("%s in %q: %v", call, dir, err)
			}
		}
	}
	if _, err := l.s.WriteFile(t.Context(), api.WriteFileRequest{Directory: "lib", Path: "x"}); !errors.Is(err, messages.ErrReadOnlyDirectory) {
		t.Errorf("write: %v", err)
	}
	if _, err := l.s.EditFile(t.Context(), api.EditFileRequest{Directory: "lib", Path: "only", Edits: []api.Edit{{Old: "needle", New: "x"}}}); !errors.Is(err, messages.ErrReadOnlyDirectory) {
		t.Errorf("edit: %v", err)
	}
	if err := l.s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for call, err := range calls("lib") {
		if !errors.Is(err, messages.ErrStopped) {
			t.Errorf("%s after the end: %v", call, err)
		}
	}
}

// A search of a large tree keeps what it answers, not what it has seen.
func TestSearchOfLargeTreeIsBounded(t *testing.T) {
	const dirs, each, bound = 100, 1000, 8 << 20 // the paths alone are more
	l := newLab(t, 1, nil)
	for d := range dirs {
		dir := filepath.Join(l.dirs[0], fmt.Sprintf("directory-with-a-name-of-some-length-%03d", d))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		first := filepath.Join(dir, "file-with-a-name-of-some-length-0000.txt")
		for f := range each {
			path := filepath.Join(dir, fmt.Sprintf("file-with-a-name-of-some-length-%04d.txt", f))
			if f == 0 {
				put(t, path, "needle\n")
			} else if err := os.Link(first, path); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, search := range map[string]func() (found int, truncated bool, err error){
		"glob": func() (int, bool, error) {
			r, err := l.s.Glob(t.Context(), api.GlobRequest{Pattern: "**/*.txt"})
			return len(r.Paths), r.Truncated, err
		},
		"grep that finds everything": func() (int, bool, error) {
			r, err := l.s.Grep(t.Context(), api.GrepRequest{Pattern: "needle", Mode: api.GrepContent})
			return len(r.Matches), r.Truncated, err
		},
		"grep that finds nothing": func() (int, bool, error) {
			r, err := l.s.Grep(t.Context(), api.GrepRequest{Pattern: "nee.*dles", Mode: api.GrepCount})
			return 1000 + len(r.Counts), !r.Truncated, err
		},
	} {
		before := liveBytes()
		done, peak := make(chan struct{}), make(chan uint64, 1)
		go func() {
			most := uint64(0)
			for {
				most = max(most, liveBytes())
				select {
				case <-done:
					peak <- most
					return
				default:
				}
			}
		}()
		n, truncated, err := search()
		close(done)
		most := <-peak
		if err != nil || n != 1000 || !truncated {
			t.Errorf("%s: %d found, truncated %v, %v", name, n, truncated, err)
		}
		t.Logf("%s: %d KiB", name, int64(most-min(most, before))>>10)
		if most > before+bound {
			t.Errorf("%s: the live heap grew by %d bytes", name, most-before)
		}
	}
}

// liveBytes is what a collection leaves.
func liveBytes() uint64 {
	runtime.GC()
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
