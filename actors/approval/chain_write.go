package approval

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// ChainWriter appends to a log. It belongs to one goroutine, and to one process: the folder's
// lock sees to that.
type ChainWriter struct {
	dir  *os.Root
	name string
	file *os.File
	head ChainHead
}

// OpenChain opens the log at path, whose directory must exist, to append to it. What is
// wrong with it is in the report; it is no error, and stays to be found: the caller
// notes it with its first line. A line that was cut off is ended.
func OpenChain(path string) (_ *ChainWriter, found ChainReport, err error) {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, found, err
	}
	w := &ChainWriter{dir: dir, name: filepath.Base(path)}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	head, err := readHead(dir, headFile(w.name))
	if err != nil {
		return nil, found, err
	}
	if w.file, err = openRegular(dir, w.name, os.O_RDWR|os.O_APPEND|os.O_CREATE); err != nil {
		return nil, found, err
	}
	if found, err = ReadChain(w.file, head, "", nil); err != nil {
		return nil, found, err
	}
	w.head = ChainHead{Lines: found.Lines, Hash: found.Hash}
	if found.torn {
		_, err = io.WriteString(w.file, "\n")
	}
	return w, found, err
}

// Append writes an object, which must marshal to a JSON object without a member "prev",
// as the next line. If that fails, what it wrote is taken back, as far as that is
// possible.
func (w *ChainWriter) Append(object any) error {
	b, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if len(b) < 2 || b[0] != '{' {
		return fmt.Errorf("chain: %T is no JSON object", object)
	}
	line := b[:len(b)-1]
	if len(b) > 2 {
		line = append(line, ',')
	}
	line = fmt.Appendf(line, `"prev":%q}`, w.head.Hash)
	if len(line) > MaxChainLine-1 {
		return fmt.Errorf("chain: a line of %d bytes: at most %d", len(line), MaxChainLine-1)
	}
	info, err := w.file.Stat()
	if err != nil {
		return err
	}
	if _, err := w.file.Write(append(line, '\n')); err != nil {
		return errors.Join(err, w.file.Truncate(info.Size()))
	}
	head := ChainHead{Lines: w.head.Lines + 1, Hash: hashOf(line)}
	if err := w.writeHead(head); err != nil {
		return errors.Join(err, w.file.Truncate(info.Size()))
	}
	w.head = head
	return nil
}

// writeHead replaces the head.
func (w *ChainWriter) writeHead(head ChainHead) error {
	b, err := json.Marshal(head)
	if err != nil {
		return err
	}
	name := headFile(w.name)
	next := name + ".new"
	if err := w.dir.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	err = w.dir.WriteFile(next, append(b, '\n'), 0o600)
	if err == nil {
		err = w.dir.Rename(next, name)
	}
	if err != nil {
		_ = w.dir.Remove(next) // the error tells why; the next one removes it, too
	}
	return err
}

// Close closes the files. It may be called again.
func (w *ChainWriter) Close() error {
	var errs []error
	if w.file != nil {
		errs = append(errs, w.file.Close())
		w.file = nil
	}
	if w.dir != nil {
		errs = append(errs, w.dir.Close())
		w.dir = nil
	}
	return errors.Join(errs...)
}
