package web

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrNotPrivate is wrapped when others may read or change a file that is to be secret.
var ErrNotPrivate = errors.New("web: the file is not private")

// ReadPrivate reads a file that holds a secret: a regular file of at most limit bytes, which belongs to this user or to root and which nobody else can read or change. A file of root's may
// be read by its group, as Kubernetes mounts a secret. Symbolic links are followed. On Windows the rights are the directory's, and are not looked at. The error names the file and says what to do, and wraps
// [ErrNotPrivate] where others have rights.
func ReadPrivate(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblocking, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: it is no regular file", path)
	}
	if why := exposed(st); why != "" {
		return nil, fmt.Errorf("%w: %s %s: use chmod 600, and chown to the user that runs this program", ErrNotPrivate, path, why)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s: it is longer than %d bytes", path, limit)
	}
	return b, nil
}
