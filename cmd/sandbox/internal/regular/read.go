package regular

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Read returns the text of a file, and what was read. A file of more than maxBytes is an
// error. A symlink in the file's place is one, too, unless follow is set.
func Read(path string, maxBytes int64, follow bool) ([]byte, fs.FileInfo, error) {
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
	if opened, err := f.Stat(); err != nil || !os.SameFile(seen, opened) {
		return nil, nil, fmt.Errorf("%s was replaced while it was opened", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && int64(len(text)) > maxBytes {
		err = fmt.Errorf("%s is larger than %s: it is not read", path, size(maxBytes))
	}
	return text, seen, err
}

func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
