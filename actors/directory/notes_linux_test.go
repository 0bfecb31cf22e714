package directory

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages/lexical"
)

// TestW9LogsNoted: each log outside of the state directory is noted, so that no guest may read it: also a folder's earlier one, and those of folders that were noted
// before such notes were made. One in the state directory needs none, and a note whose log is gone says nothing.
func TestW9LogsNoted(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", "")
	at := func(name string) string { return filepath.Join(home, name) }
	for _, log := range []string{"old/log", "first/log", "second/log", ".local/state/sandbox/undo/w-1"} {
		for _, name := range []string{"steps", "version", "lock", "wal"} {
			if err := os.MkdirAll(filepath.Join(at(log), name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	noted := func() (paths []string) {
		for _, s := range hypervisor.Logs(os.Getenv, nil, home) {
			if lexical.Within(s.Path, home) { // others may lie above it
				paths = append(paths, s.Path)
			}
		}
		slices.Sort(paths)
		return paths
	}
	if err := note(at(".local/state/sandbox/folders/1-1"), at("old/log")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key, log string
		want     []string
	}{
		{"2-2", ".local/state/sandbox/undo/w-1", nil},
		{"2-2", "first/log", []string{at("first/log"), at("old/log")}},
		{"2-2", "second/log", []string{at("first/log"), at("old/log"), at("second/log")}},
		{"", "first/log", []string{at("first/log"), at("old/log"), at("second/log")}},
		{"3-3", "gone/log", []string{at("first/log"), at("old/log"), at("second/log")}},
	} {
		if err := noteLog(c.key, at(c.log)); err != nil {
			t.Fatal(err)
		}
		if got := noted(); !slices.Equal(got, c.want) {
			t.Errorf("after %s: %q, want %q", c.log, got, c.want)
		}
	}
}

// TestW9AmongLogs: no working folder is a directory of logs, or lies in one: this user's state directory, or another one by its names.
func TestW9AmongLogs(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", filepath.Join(base, "state"))
	logs := []string{"state/sandbox/undo/a-1", "other/.local/state/sandbox/undo/b-1", "p/.sandbox-undo/c-1", "named/d-1"}
	for _, log := range logs {
		for _, name := range []string{"steps", "version", "lock", "wal"} {
			if err := os.MkdirAll(filepath.Join(base, log, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	for path, ok := range map[string]bool{
		"state/sandbox": false, "state/sandbox/undo": false, "state/sandbox/places": false, "state": true, "state/other": true,
		"other/.local/state/sandbox": false, "other/.local/state/sandbox/undo": false, "other/.local/state/sandbox/undo/mine": false, "other/.local/state": true,
		"p/.sandbox-undo": false, "p": true, "src/sandbox/undo": true, "src/sandbox": true, "named/beside": true, "named/d-1/steps": false,
	} {
		if err := os.MkdirAll(filepath.Join(base, path), 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := Validate(api.Directory{Path: filepath.Join(base, path), UndoDir: filepath.Join(base, "log")}, nil)
		if ok != (err == nil) || !ok && !errors.Is(err, api.ErrDirectory) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestForget: of a folder that is to go nothing is left but the folder, and of another one all.
func TestForget(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", filepath.Join(base, "state"))
	keep := func(name, log string) (folder string) {
		t.Helper()
		folder = filepath.Join(base, name)
		for _, dir := range []string{folder, filepath.Join(log, "steps"), filepath.Join(log, "trash")} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, file := range []string{"version", "lock"} {
			if err := os.WriteFile(filepath.Join(log, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := noteLog(undolog.FolderKey(folder), log); err != nil {
			t.Fatal(err)
		}
		for _, of := range []func(string) (string, error){MachineDir, FrontendDir} {
			dir, err := of(folder)
			if err == nil {
				err = os.MkdirAll(filepath.Join(dir, "below"), 0o700)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return folder
	}
	all := func() (files []string) {
		t.Helper()
		err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
			if rel, _ := filepath.Rel(base, path); err == nil && rel != "goes" && (!d.IsDir() || strings.Contains(rel, "goes")) {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	keep("stays", filepath.Join(base, "logs", "stays"))
	before := all()
	log := filepath.Join(base, "logs", "goes")
	folder := keep("goes", log)
	if len(all()) <= len(before)+4 {
		t.Fatalf("nothing is kept: %q", all())
	}
	for range 2 { // the second time there is nothing
		if err := Forget(t.Context(), folder, log); err != nil {
			t.Fatal(err)
		}
		if after := all(); !slices.Equal(after, before) {
			t.Errorf("%q, want %q", after, before)
		}
	}
	if _, err := os.Stat(folder); err != nil {
		t.Error(err)
	}
}

// TestSweepNotes: of a note that a kill has cut nothing is left after a while; one that is just being made stays, and so does each complete one.
func TestSweepNotes(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	state, err := StateDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := noteLog("1-1", "/elsewhere/log"); err != nil { // a note in each directory
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * unfinishedTime)
	want := 2
	for _, dir := range []string{folderNotes, hypervisor.LogNotes} {
		for _, name := range []string{unfinished + "old", unfinished + "young"} {
			path := filepath.Join(state, dir, name)
			if err := os.WriteFile(path, []byte("/elsew"), 0o600); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "old") {
				if err := os.Chtimes(path, long, long); err != nil {
					t.Fatal(err)
				}
			} else {
				want++
			}
		}
	}
	notes, err := filepath.Glob(filepath.Join(state, folderNotes, "1-1"))
	if err != nil || len(notes) != 1 || os.Chtimes(notes[0], long, long) != nil {
		t.Fatal(notes, err)
	}
	sweepNotes()
	left, err := filepath.Glob(filepath.Join(state, "*", "*"))
	hidden, herr := filepath.Glob(filepath.Join(state, "*", ".*"))
	all := map[string]bool{}
	for _, path := range append(left, hidden...) {
		if all[path] = true; strings.HasSuffix(path, "old") {
			t.Errorf("%s is left", path)
		}
	}
	if err != nil || herr != nil || len(all) != want {
		t.Errorf("left are %v, want %d", all, want)
	}
}
