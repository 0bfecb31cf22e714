package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// attempts is how often a write begins afresh because somebody renamed what it
// was about, or shortened it.
const attempts = 16

// Write replaces or creates the file rel, which [Clean] has returned. When ctx
// ends while somebody is asked for a decision the error is ctx's.
//
// An existing file keeps its inode: hard links, owner, mode, xattrs and whoever
// has it open stay as they are. Its content is replaced under one mutation of
// the Interceptor. Space is reserved first, so that a full disk is found out
// before anything changes; if writing fails all the same the old bytes are put
// back. A new file gets its name when it is complete.
func (wr *Writer) Write(ctx context.Context, rel string, o WriteOptions) (WriteResult, error) {
	w := &writing{f: wr.Folder, wr: wr, admit: o.Admit}
	err := w.run(ctx, rel, func() error { return w.write(rel, o) })
	return w.res, err
}

// writing is one call.
type writing struct {
	f        *Folder
	wr       *Writer
	cancel   <-chan struct{}
	admit    func() error
	admitted bool
	res      WriteResult
}

// run calls f until it does not find that somebody changed what it looked at.
func (w *writing) run(ctx context.Context, rel string, f func() error) error {
	ctx, leave, err := w.f.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	w.cancel = ctx.Done()
	for range attempts {
		err := f()
		switch {
		case errors.Is(err, errReady):
			if err = w.admit(); err != nil {
				return err
			}
			w.admitted = true
		case errors.Is(err, fsbridge.ErrInterrupted) && ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, errAgain):
			return err
		}
	}
	return fmt.Errorf("%s: %w", rel, ErrConflict)
}

// errReady: nothing speaks against it; ask to be admitted.
var errReady = errors.New("files: ready")

// ready stops the first pass, which only looks.
func (w *writing) ready() error {
	if w.admit != nil && !w.admitted {
		return errReady
	}
	return nil
}

func (w *writing) write(rel string, o WriteOptions) error {
	p, err := w.f.place(rel, o.Parents)
	if err != nil {
		return err
	}
	defer p.close()
	w.res.Path, w.res.Bytes = p.path(), int64(len(o.Data))
	if p.st.Ino == 0 {
		if err := w.ready(); err != nil {
			return err
		}
		return w.create(p, o)
	}
	switch {
	case o.Create:
		return fail("create", w.res.Path, fs.ErrExist)
	case !p.st.IsRegular():
		return fail("write", w.res.Path, ErrNotRegular)
	}
	return w.overwrite(p, o.Data, nil)
}

// overwrite replaces the content of the file at p. expect, if not nil, is the
// content that it must have.
func (w *writing) overwrite(p *place, data, expect []byte) error {
	n := newNode(w.f.root, p.dir, p.name, &p.st, -1)
	fd, err := n.Open(posix.O_RDWR)
	if err != nil {
		return againIf(err)
	}
	defer hostfs.Close(fd)
	if same, err := holds(fd, data); err != nil || same {
		return err
	}
	if err := w.ready(); err != nil {
		return err
	}
	op := &fsbridge.Op{Kind: fsbridge.OpTruncate, Node: &n.obj, NodeStat: p.st, Validate: func(uint64) error { return n.checkAll() }}
	return w.perform(op, func() (*fsbridge.Object, error) {
		if expect != nil {
			if same, err := holds(fd, expect); err != nil || !same {
				return nil, errors.Join(err, fmt.Errorf("%s: %w", w.res.Path, ErrConflict))
			}
		}
		w.touched(w.res.Path)
		err := replace(fd, data)
		if errors.Is(err, ErrConflict) && expect == nil {
			err = errAgain // a command has shortened it, by a descriptor that is its own
		}
		return nil, err
	})
}

func (w *writing) touched(path string) { w.res.Touched = append(w.res.Touched, path) }

// perform asks, and does f while the epoch cannot end.
func (w *writing) perform(op *fsbridge.Op, f func() (*fsbridge.Object, error)) (err error) {
	op.Cancel, op.Ours = w.cancel, true
	ticket, err := w.wr.Hooks.Begin(op)
	if err != nil {
		return err
	}
	err = fsbridge.ErrFailed // should f panic
	var created *fsbridge.Object
	defer func() { w.wr.Hooks.End(ticket, op, created, err) }()
	if created, err = f(); err == nil {
		w.res.Changed = true
	}
	return err
}

// holds tells whether the file's content is data.
func holds(fd int, data []byte) (bool, error) {
	st, err := hostfs.StatFD(fd)
	if err != nil || st.Size != int64(len(data)) {
		return false, err
	}
	buf := make([]byte, min(len(data), 256<<10))
	for off := 0; off < len(data); off += len(buf) {
		want := data[off:min(off+len(buf), len(data))]
		n, err := hostfs.PreadFull(fd, buf[:len(want)], int64(off))
		if err != nil || !bytes.Equal(buf[:n], want) {
			return false, err
		}
	}
	return true, nil
}

// replace makes data the content of the open file, or leaves it as it was.
func replace(fd int, data []byte) error {
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	old := make([]byte, min(st.Size, int64(len(data))))
	if n, err := hostfs.PreadFull(fd, old, 0); err != nil || n < len(old) {
		return errors.Join(err, ErrConflict)
	}
	if len(data) > 0 {
		err := hostfs.FallocateFD(fd, posix.FALLOC_FL_KEEP_SIZE, 0, int64(len(data)))
		if errors.Is(err, posix.ENOSPC) || errors.Is(err, posix.EDQUOT) || errors.Is(err, posix.EFBIG) {
			return err
		}
	}
	if err = hostfs.PwriteFull(fd, data, 0); err == nil && int64(len(data)) < st.Size {
		err = hostfs.TruncateFD(fd, int64(len(data)))
	}
	if err == nil {
		err = killPriv(fd, &st)
	}
	if err != nil {
		back := errors.Join(hostfs.PwriteFull(fd, old, 0), hostfs.TruncateFD(fd, st.Size), hostfs.UtimesFD(fd, st.Atime, st.Mtime))
		if back != nil {
			return fmt.Errorf("%w; the old content could not be put back: %w", err, back)
		}
	}
	return err
}

// killPriv clears setuid, and setgid where it means execution, as the kernel
// does after a write by somebody without CAP_FSETID: what was not checked when
// the bits were set shall not run with them.
func killPriv(fd int, st *hostfs.Stat) error {
	clear := st.Mode & posix.S_ISUID
	if st.Mode&posix.S_IXGRP != 0 {
		clear |= st.Mode & posix.S_ISGID
	}
	if clear == 0 || posix.Geteuid() != 0 {
		return nil
	}
	return hostfs.ChmodFD(fd, st.Mode&^clear)
}

// create makes the file at p, where nothing is, and the directories above it.
func (w *writing) create(p *place, o WriteOptions) error {
	name := p.name
	for _, next := range p.rest {
		if err := w.mkdir(p, name); err != nil {
			return err
		}
		name = next
	}
	mode := o.Mode
	if mode == 0 {
		mode = 0o666
	}
	mode &= 0o777 &^ w.wr.Umask
	return w.make(fsbridge.OpCreate, p.dir, name, func() (int, error) { return newFile(p.dir.fd, name, mode, o.Data) })
}

// mkdir makes name in the directory of p, and goes there.
func (w *writing) mkdir(p *place, name string) error {
	dir := p.dir
	err := w.make(fsbridge.OpMkdir, dir, name, func() (int, error) {
		if err := hostfs.MkdirAt(dir.fd, name, 0o777&^w.wr.Umask); err != nil {
			return -1, err
		}
		fd, err := hostfs.OpenDirPathAt(dir.fd, name)
		if err != nil {
			err = errors.Join(err, hostfs.RmdirAt(dir.fd, name))
		}
		return fd, err
	})
	if err != nil {
		return err
	}
	return againIf(p.enter(name))
}

// make performs a creation and tells the log of what was made.
func (w *writing) make(kind fsbridge.Kind, dir *node, name string, f func() (fd int, err error)) error {
	if w.f.hidden.Entry(dir.obj.ID, name, func() (string, bool) { return dir.path(), true }) {
		return fail("create", path.Join(dir.path(), name), posix.EACCES)
	}
	op := &fsbridge.Op{Kind: kind, Dir: &dir.obj, Name: name, DirFD: dir.fd, Validate: func(uint64) error { return dir.checkAll() }}
	if w.f.dirs != nil {
		var locked fsbridge.LockedDirs
		if err := w.f.dirs.Lock(&locked, w.cancel, dir.obj.ID); err != nil {
			return err
		}
		defer locked.Unlock()
		op.Dirs = &locked
	}
	err := w.perform(op, func() (*fsbridge.Object, error) {
		fd, err := f()
		if err != nil {
			return nil, err
		}
		defer hostfs.Close(fd)
		w.touched(path.Join(dir.path(), name))
		w.res.Created = w.res.Created || kind == fsbridge.OpCreate
		st, err := hostfs.StatFD(fd)
		if err != nil {
			return nil, err
		}
		return &newNode(w.f.root, dir, name, &st, -1).obj, nil
	})
	if errors.Is(err, fs.ErrExist) {
		return errAgain
	}
	return err
}

// newFile makes a file that has its content before it has its name, where the
// file system can do that. The caller closes the descriptor.
func newFile(dirfd int, name string, mode uint32, data []byte) (int, error) {
	fd, err := hostfs.OpenTmpfile(dirfd, posix.O_WRONLY, mode)
	named := err != nil
	if named {
		if fd, err = hostfs.OpenAt(dirfd, name, posix.O_WRONLY|posix.O_CREAT|posix.O_EXCL, mode); err != nil {
			return -1, err
		}
	}
	if err = hostfs.PwriteFull(fd, data, 0); err == nil && !named {
		err = hostfs.LinkFD(fd, dirfd, name)
	}
	if err == nil {
		return fd, nil
	}
	_ = hostfs.Close(fd)
	if named {
		err = errors.Join(err, hostfs.UnlinkAt(dirfd, name))
	}
	return -1, err
}
