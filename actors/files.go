package actors

import (
	"context"
	"time"

	"github.com/codeagent/sandbox/fsbridge/files"
	"github.com/codeagent/sandbox/messages"
)

// fenceWait bounds how long a read waits for pages that a command has changed in
// memory and not written yet. It then shows what is in the file.
const fenceWait = 200 * time.Millisecond

// readable opens the folder for [Files]: hide is what its bridge hides. A folder
// that is open already is closed.
func (w *workdir) readable(hide []string) error {
	f, err := files.New(files.Options{Root: w.root, Hidden: hide})
	if err != nil {
		return err
	}
	w.s.mu.Lock()
	old := w.files
	w.files = f
	w.s.mu.Unlock()
	if old != nil {
		old.Close()
	}
	return nil
}

func (w *workdir) closeFiles() {
	w.s.mu.Lock()
	f := w.files
	w.s.mu.Unlock()
	if f != nil {
		f.Close()
	}
}

// folder finds a folder by index, path or label.
func (s *Session) folder(name string) (*workdir, *files.Folder, error) {
	select {
	case <-s.stopped:
		return nil, nil, messages.ErrStopped
	default:
	}
	w, err := s.dir(name)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.files == nil { // what to hide is known when the runtime has started
		return nil, nil, messages.ErrNoMachine
	}
	return w, w.files, nil
}

// settle has pages written back that commands have changed through memory
// mappings; everything else that they write is there at once.
func (w *workdir) settle(ctx context.Context) {
	b := w.theBridge()
	if b == nil || w.hooks != nil && w.hooks.Holding() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, fenceWait)
	defer cancel()
	if err := b.Fence(ctx); err != nil {
		w.s.logger().Debug("a file is read while its pages are not written back", "component", "files", "path", w.d.Path, "err", err)
	}
}

// ReadFile implements [Files].
func (s *Session) ReadFile(ctx context.Context, r ReadFileRequest) (FileContent, error) {
	w, f, err := s.folder(r.Directory)
	if err != nil {
		return FileContent{}, err
	}
	w.settle(ctx)
	return f.Read(ctx, files.ReadRequest{Path: r.Path, Offset: r.Offset, Limit: r.Limit, MaxBytes: r.MaxBytes})
}

// List implements [Files].
func (s *Session) List(ctx context.Context, r ListRequest) (Listing, error) {
	_, f, err := s.folder(r.Directory)
	if err != nil {
		return Listing{}, err
	}
	return f.List(ctx, files.ListRequest{Path: r.Path, Depth: r.Depth, Limit: r.Limit})
}

// Glob implements [Files].
func (s *Session) Glob(ctx context.Context, r GlobRequest) (GlobResult, error) {
	_, f, err := s.folder(r.Directory)
	if err != nil {
		return GlobResult{}, err
	}
	return f.Glob(ctx, files.GlobRequest{Pattern: r.Pattern, Path: r.Path, Limit: r.Limit, Ignored: r.Ignored})
}

// Grep implements [Files].
func (s *Session) Grep(ctx context.Context, r GrepRequest) (GrepResult, error) {
	w, f, err := s.folder(r.Directory)
	if err != nil {
		return GrepResult{}, err
	}
	w.settle(ctx)
	return f.Grep(ctx, files.GrepRequest{
		Pattern: r.Pattern, Path: r.Path, Glob: r.Glob, Mode: r.Mode,
		IgnoreCase: r.IgnoreCase, Literal: r.Literal, Multiline: r.Multiline,
		Before: r.Before, After: r.After, Limit: r.Limit, Ignored: r.Ignored,
	})
}
