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
