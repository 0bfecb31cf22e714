//go:build !linux

package treesnap

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Take records the tree at root, without owners, attributes and devices. Who a file is says the package on which the undo log stands: the
// system's own call does not say it as a number.
func Take(root string) (*Snapshot, error) {
	t := newTaker()
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return t.path(path, filepath.ToSlash(rel))
	})
	t.groups()
	return t.snap, err
}

func (t *taker) path(path, rel string) error {
	st, err := os.Lstat(path)
	if err != nil {
		return err
	}
	fd, err := posix.Open(path, posix.O_PATH, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer hostfs.Close(fd)
	is, err := hostfs.StatFD(fd)
	if err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	e := Entry{Type: st.Mode().Type(), Mode: uint32(st.Mode().Perm()), MtimeNS: st.ModTime().UnixNano()}
	switch e.Type {
	case 0:
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(b)
		e.Size, e.Hash = int64(len(b)), hex.EncodeToString(sum[:])
	case fs.ModeSymlink:
		if e.Target, err = os.Readlink(path); err != nil {
			return err
		}
	}
	t.add(rel, e, inode{is.Dev, is.Ino}, int(is.Nlink))
	return nil
}
