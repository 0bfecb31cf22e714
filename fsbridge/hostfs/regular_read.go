package hostfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ReadRegular returns the text of a file, and what was read. A file of more than maxBytes is an
// error. A symlink in the file's place is one, too, unless follow is set.
func ReadRegular(path string, maxBytes int64, follow bool) ([]byte, fs.FileInfo, error) {
	stat := os.Lstat
	if follow {
		stat = os.Stat
	}
	seen, err := stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !seen.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file: it is not read", path)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil || !os.SameFile(seen, opened) {
		return nil, nil, fmt.Errorf("%s was replaced while it was opened", path)
	}
	large := fmt.Errorf("%s is larger than %s: it is not read", path, size(maxBytes))
	if opened.Size() > maxBytes {
		return nil, nil, large
	}
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && int64(len(text)) > maxBytes {
		err = large
	}
	return text, opened, err
}

// RegularTrusted is [ReadRegular] of a file that only this user and root can change: its owner is one of
// them, others have no right to write, and its directory is so, too, or sticky. A symlink
// is an error.
func RegularTrusted(path string, maxBytes int64) ([]byte, error) {
	text, st, err := ReadRegular(path, maxBytes, false)
	if err != nil {
		return nil, err
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if dir.Mode()&fs.ModeSticky == 0 {
		if err := own(filepath.Dir(path), dir); err != nil {
			return nil, err
		}
	}
	return text, own(path, st)
}

func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
