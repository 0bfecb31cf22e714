package hostfs_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// lockVariable names the file that this program locks as another process, for [TestFileLock].
const lockVariable = "TEST_LOCK_FILE"

// TestFileLock: one has the lock, in this process or another, until he gives it up or is killed; the file is as usual for everybody else.
func TestFileLock(t *testing.T) {
	if path := os.Getenv(lockVariable); path != "" {
		_, err := hostfs.LockFile(path, false)
		fmt.Println("has it:", err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
		return
	}
	path := filepath.Join(t.TempDir(), "lock")
	refused := func(by string) {
		t.Helper()
		if l, err := hostfs.LockFile(path, false); !errors.Is(err, hostfs.ErrLocked) {
			t.Fatalf("while %s has it: %v, %v", by, l, err)
		}
		if locked, err := hostfs.Locked(path); !locked || err != nil {
			t.Errorf("while %s has it: %v, %v", by, locked, err)
		}
	}
	mine, err := hostfs.LockFile(path, true)
	if err != nil {
		t.Fatal(err)
	}
	refused("this process")
	for _, text := range []string{"a longer text", "text"} {
		if err := mine.Write([]byte(text)); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(path); string(got) != text || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	next := make(chan *hostfs.FileLock)
	go func() {
		l, err := hostfs.LockFile(path, true)
		if err != nil {
			t.Error(err)
		}
		next <- l
	}()
	for range 2 {
		if err := mine.Close(); err != nil {
			t.Error(err)
		}
	}
	mine = <-next
	refused("who has waited")
	if err := mine.Close(); err != nil {
		t.Fatal(err)
	}
	if locked, err := hostfs.Locked(path); locked || err != nil {
		t.Errorf("nobody has it: %v, %v", locked, err)
	}

	other := exec.Command(os.Args[0], "-test.run=^TestFileLock$")
	other.Env = append(os.Environ(), lockVariable+"="+path)
	stays, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stays.Close()
	out, err := other.StdoutPipe()
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "has it: <nil>\n" {
		t.Errorf("the other process: %q, %v", line, err)
	}
	refused("another process")
	_ = other.Process.Kill()
	_ = other.Wait()
	if mine, err = hostfs.LockFile(path, true); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mine.Close() }()

	if is, err := mine.Is(path); !is || err != nil {
		t.Errorf("it is what was locked: %v, %v", is, err)
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	if is, err := mine.Is(path); is || err != nil {
		t.Errorf("moved away: %v, %v", is, err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if is, err := mine.Is(path); is || err != nil {
		t.Errorf("another in its place: %v, %v", is, err)
	}
}

// TestFileLockOfNoFile: what is no regular file is not locked, and not waited for.
func TestFileLockOfNoFile(t *testing.T) {
	dir := t.TempDir()
	for name, make := range map[string]func(path string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"symlink":   func(path string) error { return os.Symlink(filepath.Join(dir, "target"), path) },
		"missing":   func(string) error { return nil },
	} {
		path := filepath.Join(dir, name, "lock")
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if name == "missing" {
			path = filepath.Join(path, "lock")
		}
		if name == "symlink" && runtime.GOOS == "windows" {
			continue // it takes a right to make one
		}
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		if l, err := hostfs.LockFile(path, true); err == nil {
			t.Errorf("%s: locked: %v", name, l.Close())
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "target")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("behind the symlink: %v", err)
	}
}
