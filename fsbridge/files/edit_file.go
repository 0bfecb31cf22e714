package files

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Edit replaces text in the file rel, which [Clean] has returned, as
// [Writer.Write] does. If somebody else changes the file meanwhile the error is
// [ErrConflict].
func (wr *Writer) Edit(ctx context.Context, rel string, o EditOptions) (WriteResult, error) {
	w := &writing{f: wr.Folder, wr: wr, admit: o.Admit}
	err := w.run(ctx, rel, func() error { return w.edit(rel, o) })
	return w.res, err
}

func (w *writing) edit(rel string, o EditOptions) error {
	p, err := w.f.place(rel, false)
	if err != nil {
		return err
	}
	defer p.close()
	w.res.Path = p.path()
	switch {
	case p.st.Ino == 0:
		return fail("edit", rel, fs.ErrNotExist)
	case !p.st.IsRegular():
		return fail("edit", w.res.Path, ErrNotRegular)
	case p.st.Size > MaxEditBytes:
		return fmt.Errorf("%s: %w: it has %d bytes, an edit takes at most %d", w.res.Path, ErrTooLarge, p.st.Size, MaxEditBytes)
	}
	old, err := w.read(p)
	if err != nil {
		return err
	}
	now, n, err := apply(old, o.Edits)
	if err != nil {
		return fmt.Errorf("%s: %w", w.res.Path, err)
	}
	w.res.Replacements, w.res.Bytes, w.res.Diff = n, int64(len(now)), diff(w.res.Path, old, now)
	if o.DryRun {
		return nil
	}
	return w.overwrite(p, now, old)
}

func (w *writing) read(p *place) ([]byte, error) {
	fd, err := newNode(w.f.root, p.dir, p.name, &p.st, -1).Open(posix.O_RDONLY)
	if err != nil {
		return nil, againIf(err)
	}
	defer hostfs.Close(fd)
	buf := make([]byte, p.st.Size+1)
	n, err := hostfs.PreadFull(fd, buf, 0)
	if err == nil && int64(n) != p.st.Size {
		err = errAgain // it grew or shrank
	}
	return buf[:n], err
}
