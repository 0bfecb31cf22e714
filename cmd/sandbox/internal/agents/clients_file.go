package agents

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/messages/lexical"
)

// maxFileBytes bounds a client's file.
const maxFileBytes = 64 << 20

// Change says what became of a file.
type Change struct {
	File    string `json:"file"`
	Changed bool   `json:"changed"`
	Backup  string `json:"backup,omitempty"` // empty if there was no file
}

// Edit replaces the file by what edit makes of its text, and keeps what it was
// beside it. A file that is a symlink stays one: what it points to is replaced.
// within, unless it is empty, is the folder that the file must lie in. A file
// that is not there is made, with mode. The text of one that somebody else
// changes meanwhile is read again.
func Edit(file, within string, mode fs.FileMode, now time.Time, edit func([]byte) ([]byte, error)) (Change, error) {
	real, err := target(file, within)
	if err != nil {
		return Change{File: file}, err
	}
	for range 5 {
		c, err := editOnce(real, mode, now, edit)
		c.File = file
		if !errors.Is(err, errChanged) {
			return c, err
		}
	}
	return Change{File: file}, fmt.Errorf("%s is being changed all the time; end the client and try again", file)
}

var errChanged = errors.New("the file was changed meanwhile")

func editOnce(real string, mode fs.FileMode, now time.Time, edit func([]byte) ([]byte, error)) (c Change, err error) {
	before, st, err := read(real)
	if err != nil {
		return c, err
	}
	after, err := edit(before)
	if end := (gone{}); errors.As(err, &end) {
		return removeOnce(real, before, st, end.keep, now)
	}
	if err != nil {
		return c, described(real, err)
	}
	if bytes.Equal(before, after) {
		return c, nil
	}
	if st != nil {
		mode = st.Mode().Perm()
	} else if err := os.MkdirAll(filepath.Dir(real), 0o755); err != nil {
		return c, err
	}
	next, err := temporary(real, after, mode, st)
	if err != nil {
		return c, err
	}
	defer os.Remove(next) // not there any more when all went well
	if again, _, err := read(real); err != nil || !bytes.Equal(again, before) {
		return c, errors.Join(errChanged, err)
	}
	if st != nil {
		if c.Backup, err = backup(real, before, mode, st, now); err != nil {
			return c, err
		}
	}
	c.Changed = true
	return c, os.Rename(next, real)
}

// described says in which file an edit failed, and where.
func described(real string, err error) error {
	if err == nil {
		return nil
	}
	var syntax *jsoncSyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("%s:%w; nothing was changed", real, err)
	}
	return fmt.Errorf("%s: %w", real, err)
}

// removeOnce removes the file, if it is as it was read.
func removeOnce(real string, before []byte, st fs.FileInfo, keep bool, now time.Time) (c Change, err error) {
	if again, _, err := read(real); err != nil || !bytes.Equal(again, before) {
		return c, errors.Join(errChanged, err)
	}
	if keep {
		if c.Backup, err = backup(real, before, st.Mode().Perm(), st, now); err != nil {
			return c, err
		}
	}
	c.Changed = true
	return c, discard(real)
}

// target resolves symlinks, and checks that the file stays within a folder.
func target(file, within string) (string, error) {
	real, err := filepath.EvalSymlinks(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(file); err == nil {
			return "", fmt.Errorf("%s is a symlink to nothing; make what it points to, or remove it", file)
		}
		// The folder that it will be in may not be there either.
		dir, rest := filepath.Dir(file), filepath.Base(file)
		for !there(dir) && filepath.Dir(dir) != dir {
			dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest)
		}
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return "", err
		}
		real = filepath.Join(dir, rest)
	case err != nil:
		return "", err
	}
	if within == "" {
		return real, nil
	}
	if within, err = filepath.EvalSymlinks(within); err != nil {
		return "", err
	}
	if !lexical.Within(real, within) {
		return "", fmt.Errorf("%s leads out of %s, to %s; it is not touched", file, within, real)
	}
	return real, nil
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// read returns the text; nil and no info if there is no file.
func read(path string) ([]byte, fs.FileInfo, error) {
	text, st, err := hostfs.ReadRegular(path, maxFileBytes, false)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return text, st, err
}

// temporary writes a file beside path with the mode and owner of st.
func temporary(path string, text []byte, mode fs.FileMode, st fs.FileInfo) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(text)
	err = errors.Join(err, keepOwner(f, st), f.Chmod(mode), f.Sync(), f.Close())
	return f.Name(), err
}

// backup keeps a copy beside path, with the time in its name.
func backup(path string, text []byte, mode fs.FileMode, st fs.FileInfo, now time.Time) (string, error) {
	name, err := temporary(path, text, mode, st)
	if err != nil {
		return "", err
	}
	defer os.Remove(name)
	base := path + "." + now.Format("20060102-150405")
	for i := 1; ; i++ {
		to := base + ".bak"
		if i > 1 {
			to = base + "-" + strconv.Itoa(i) + ".bak"
		}
		err := os.Link(name, to)
		if errors.Is(err, fs.ErrExist) && i < 1000 {
			continue
		}
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) { // no hard links here
			err = os.Rename(name, to)
		}
		return to, err
	}
}
