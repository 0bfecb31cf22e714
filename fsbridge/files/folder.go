package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Options configures a [Folder].
type Options struct {
	// Root is the working folder. It stays the caller's, and open until the
	// Folder is closed.
	Root *hostfs.Root
	// Dirs are the locks of the folder's directories, shared with its bridge. It may be
	// nil where nobody else changes names.
	Dirs *fsbridge.DirLocks
	// Hidden are paths relative to Root that are hidden from commands, as the
	// bridge of the folder got them.
	Hidden []string
}

// Folder reads a working folder. Its methods may be called concurrently; they
// return ctx's error when that ends first.
type Folder struct {
	root   *hostfs.Root
	hidden *hostfs.Hidden
	dirs   *fsbridge.DirLocks

	// open is held for reading by everything under way, so that no descriptor
	// is closed below it.
	open   sync.RWMutex
	closed bool
	done   context.Context
	cancel context.CancelFunc
}

// New opens a folder. Close it before its root.
func New(o Options) (*Folder, error) {
	h, err := hostfs.NewHidden(o.Root, o.Hidden)
	if err != nil {
		return nil, err
	}
	f := &Folder{root: o.Root, hidden: h, dirs: o.Dirs}
	f.done, f.cancel = context.WithCancel(context.Background())
	return f, nil
}

// Close ends what is under way and waits for it. Later calls do nothing.
func (f *Folder) Close() {
	f.cancel()
	f.open.Lock()
	defer f.open.Unlock()
	if !f.closed {
		f.closed = true
		f.hidden.Close()
	}
}

// enter begins an operation, which ends with leave.
func (f *Folder) enter(ctx context.Context) (_ context.Context, leave func(), err error) {
	f.open.RLock()
	if err = ctx.Err(); f.closed {
		err = ErrClosed
	}
	if err != nil {
		f.open.RUnlock()
		return ctx, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(f.done, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil); f.open.RUnlock() }, nil
}

// Rel returns the path relative to the folder of what was asked for: see
// [Clean]. An absolute path may also reach the folder by another name than the
// folder's own (a symlink outside of it), and a path may be escaped ([Escape]).
func (f *Folder) Rel(p string) (string, error) {
	p = unescape(p)
	rel, err := Clean(p, f.root.Path())
	if err == nil || !path.IsAbs(p) || strings.IndexByte(p, 0) >= 0 {
		return rel, err
	}
	clean := path.Clean(p)
	for i := 1; i <= len(clean); i++ {
		if i < len(clean) && clean[i] != '/' {
			continue
		}
		id, ierr := hostfs.IDOf(clean[:i])
		if ierr != nil {
			break
		}
		if id == f.root.ID() {
			return Clean(strings.TrimPrefix(clean[i:], "/"), f.root.Path())
		}
	}
	return "", err
}

// target is what a path leads to.
type target struct {
	fd   int // O_PATH
	st   hostfs.Stat
	real string // its path, without symlinks
}

func (t *target) close() { _ = hostfs.Close(t.fd) }

// fail says which path an error is about.
func fail(op, rel string, err error) error {
	shown, _ := Escape(rel)
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &os.PathError{Op: op, Path: shown, Err: err}
}

// limit checks a limit and fills in its default.
func limit(what string, n, def int) (int, error) {
	switch {
	case n < 0:
		return 0, fmt.Errorf("%w: %s is negative", ErrRequest, what)
	case n == 0:
		return def, nil
	}
	return min(n, MaxLimit), nil
}
