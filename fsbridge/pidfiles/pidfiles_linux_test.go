package pidfiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLive: files that name a live process of this user's by its number are found, in each form; not those of a process that has ended, that began
// after the file was written, of the kernel or of another owner, nor other files with a number in them.
func TestLive(t *testing.T) {
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	dir, own := t.TempDir(), os.Getpid()
	swap := make([]byte, 64)
	copy(swap, "b0VIM 9.1")
	binary.LittleEndian.PutUint32(swap[24:], uint32(own))
	for name, text := range map[string]string{
		"pg/postmaster.pid":       fmt.Sprintf("%d\n/data\n", own),
		"tmp/pids/server.pid":     fmt.Sprint(own),
		"a.lock":                  fmt.Sprintf(" %d \n", own),
		".notes.swp":              string(swap),
		"ended.pid":               fmt.Sprint(ended.Process.Pid),
		"kernel.pid":              "2\n",
		"first.pid":               "1\n",
		"old.pid":                 fmt.Sprint(own),
		"Cargo.lock":              "# made by a program\n",
		"number.txt":              fmt.Sprint(own),
		"large.pid":               strings.Repeat("9", 4096),
		"node_modules/x/some.pid": fmt.Sprint(own),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-1000 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "old.pid"), before, before); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{".#main.go": fmt.Sprintf("me@a.host.%d:1700000000", own), "SingletonLock": fmt.Sprintf("my-host-%d", own), "link.pid": "a.lock", ".#odd": "nobody"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, n := range Live(dir) {
		rel, err := filepath.Rel(dir, n.Path)
		if err != nil || n.PID != own || n.Program == "" {
			t.Errorf("%+v, %v", n, err)
		}
		got = append(got, rel)
	}
	slices.Sort(got)
	if want := []string{".#main.go", ".notes.swp", "SingletonLock", "a.lock", "pg/postmaster.pid", "tmp/pids/server.pid"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// TestNames: of processes that files name, only those that work in the folder are told of, and only while they are alive.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	in, beside := exec.Command("sleep", "1000"), exec.Command("sleep", "1000")
	in.Dir, beside.Dir = filepath.Join(dir, "pg"), t.TempDir()
	if err := os.Mkdir(in.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, cmd := range map[string]*exec.Cmd{"postmaster.pid": in, "beside.pid": beside} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
		if err := os.WriteFile(filepath.Join(in.Dir, name), fmt.Append(nil, cmd.Process.Pid), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !Names(dir, in.Process.Pid) {
		t.Error("one that works in the folder is not told of")
	}
	if Names(dir, beside.Process.Pid) {
		t.Error("one that works elsewhere is told of")
	}
	if Names(t.TempDir(), in.Process.Pid) {
		t.Error("one is told of for another folder")
	}
	for i := range 3 * mostFiles {
		for _, cmd := range []*exec.Cmd{in, beside} { // which of them is listed first is the file system's to choose
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d-%d.pid", cmd.Process.Pid, i)), fmt.Append(nil, cmd.Process.Pid), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !Names(dir, in.Process.Pid) || Names(dir, beside.Process.Pid) {
		t.Error("it is not the same among many files")
	}
	if n := len(Live(dir)); n != mostFiles {
		t.Errorf("%d are listed", n)
	}
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	if Names(dir, in.Process.Pid) {
		t.Error("one that no file names is told of")
	}
}
