package image

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/fulldisk"
)

// TestFetchFullDisk: a disk that is too small for the archive, or for what is in it, keeps the image that it has.
func TestFetchFullDisk(t *testing.T) {
	random := make([]byte, 150<<10)
	_, _ = rand.Read(random)
	for what, kernel := range map[string]string{
		"the archive": string(random) + string(random), "what is in it": string(random),
	} {
		archive := packed(t, smallImage(t, t.TempDir(), "amd64", kernel))
		file := filepath.Join(t.TempDir(), "archive")
		if err := os.WriteFile(file, archive, 0o600); err != nil {
			t.Fatal(err)
		}
		disk := fulldisk.New(t)
		before := smallImage(t, disk.Dir, "amd64", "the one before")
		_, err := Fetch(t.Context(), FetchOptions{Dir: disk.Dir, Arch: "amd64", From: file, SHA256: sum(archive)})
		if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "--image-dir names another place") {
			t.Errorf("no room for %s: %v", what, err)
		}
		if err := before.Verify(); err != nil {
			t.Errorf("no room for %s: the image that was there: %v", what, err)
		}
		if left, _ := os.ReadDir(disk.Dir); len(left) != 1 {
			t.Errorf("no room for %s: %v is left", what, left)
		}
	}
}

// TestNoFile: nobody waits for the writer of a FIFO, and a device is no file: neither as an archive, nor as its checksums, nor as a package.
func TestNoFile(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	some := strings.Repeat("0", 64)
	for _, name := range []string{fifo, os.DevNull, t.TempDir()} {
		for what, do := range map[string]func(dir string) error{
			"an archive": func(dir string) error {
				_, err := Fetch(t.Context(), FetchOptions{Dir: dir, Arch: "amd64", From: name, SHA256: some})
				return err
			},
			"checksums": func(dir string) error {
				_, err := Fetch(t.Context(), FetchOptions{Dir: dir, Arch: "amd64", From: filepath.Join(dir, "archive"), Sums: name})
				return err
			},
			"a package": func(dir string) error {
				_, err := Build(t.Context(), Options{Dir: dir, Arch: "amd64", KernelPackage: name, BusyboxPackage: name})
				return err
			},
		} {
			if err := do(t.TempDir()); err == nil || !strings.Contains(err.Error(), name+" is no file") {
				t.Errorf("%s as %s: %v", name, what, err)
			}
		}
	}
}
