package undolog

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// FolderKey is a name for the folder at path that it keeps when it is moved, and that no
// other folder ever has. Where the file system gives none, it is empty.
func FolderKey(path string) string {
	root, err := hostfs.OpenRoot(path)
	if err != nil {
		return ""
	}
	defer root.Close()
	l, err := root.Lasting()
	if err != nil {
		return ""
	}
	return keyOf(l)
}

func keyOf(l hostfs.Lasting) string {
	if l.Handle == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(l.FileSystem + " " + l.Handle))
	return hex.EncodeToString(sum[:16])
}

// Whose reads, without locking, whose the log in dir is: the [FolderKey] of its folder, and
// where that was last. Of a log of an older program both are empty.
func Whose(dir string) (key, folder string, err error) {
	r, err := store.OpenDir(dir, nil, false)
	if err != nil {
		return "", "", err
	}
	defer r.Close()
	id, err := store.ReadIdentity(r.FD())
	if id == nil {
		return "", "", err
	}
	return keyOf(id.Lasting), string(id.Folder), nil
}

// CheckDir refuses a directory for logs that somebody else could have written to, or can,
// or that is a symlink. One that does not exist is fine.
func CheckDir(dir string) error {
	r, err := store.OpenDir(dir, nil, false)
	if errors.Is(err, posix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.Close()
}

// Rename moves the log in from, which nobody has open, to the directory to, which does not
// exist, or is empty.
func Rename(ctx context.Context, from, to string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := store.OpenDir(from, nil, false)
	if err != nil {
		return err
	}
	defer r.Close()
	lock, _, err := store.TakeLock(r)
	if err != nil {
		return err
	}
	defer store.Unlock(lock)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return store.Unusable(to, err)
	}
	if err := posix.Rename(from, to); err != nil {
		return store.Unusable(to, &os.LinkError{Op: "rename", Old: from, New: to, Err: err})
	}
	return nil
}

// PutAside renames the log in dir, so that another can begin there, and says what it is
// called now.
func PutAside(ctx context.Context, dir string) (string, error) {
	var b [4]byte
	if _, err := io.ReadFull(rand.Reader, b[:]); err != nil {
		return "", err
	}
	base := filepath.Base(dir)
	mark := AsideMark + hex.EncodeToString(b[:])
	aside := filepath.Join(filepath.Dir(dir), base[:min(len(base), hostfs.NameMax-len(mark))]+mark)
	if _, err := os.Lstat(aside); err == nil {
		return "", store.Unusable(dir, fmt.Errorf("%s exists", aside))
	}
	return aside, Rename(ctx, dir, aside)
}
