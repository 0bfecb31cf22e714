package actors

import (
	"context"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/directory"
	"github.com/codeagent/sandbox/fsbridge/files"
	"github.com/codeagent/sandbox/messages"
)

// files finds a folder by index, path or label, and its files.
func (s *Session) files(name string) (*directory.Directory, *files.Folder, error) {
	select {
	case <-s.stopped:
		return nil, nil, messages.ErrStopped
	default:
	}
	w, err := s.dir(name)
	if err != nil {
		return nil, nil, err
	}
	f, err := w.Folder()
	return w, f, err
}

// ReadFile implements [api.Files].
func (s *Session) ReadFile(ctx context.Context, r api.ReadFileRequest) (api.FileContent, error) {
	w, f, err := s.files(r.Directory)
	if err != nil {
		return api.FileContent{}, err
	}
	w.Settle(ctx)
	return f.Read(ctx, files.ReadRequest{Path: r.Path, Offset: r.Offset, Limit: r.Limit, MaxBytes: r.MaxBytes})
}

// List implements [api.Files].
func (s *Session) List(ctx context.Context, r api.ListRequest) (api.Listing, error) {
	_, f, err := s.files(r.Directory)
	if err != nil {
		return api.Listing{}, err
	}
	return f.List(ctx, files.ListRequest{Path: r.Path, Depth: r.Depth, Limit: r.Limit})
}

// Glob implements [api.Files].
func (s *Session) Glob(ctx context.Context, r api.GlobRequest) (api.GlobResult, error) {
	_, f, err := s.files(r.Directory)
	if err != nil {
		return api.GlobResult{}, err
	}
	return f.Glob(ctx, files.GlobRequest{Pattern: r.Pattern, Path: r.Path, Limit: r.Limit, Ignored: r.Ignored})
}

// Grep implements [api.Files].
func (s *Session) Grep(ctx context.Context, r api.GrepRequest) (api.GrepResult, error) {
	w, f, err := s.files(r.Directory)
	if err != nil {
		return api.GrepResult{}, err
	}
	w.Settle(ctx)
	return f.Grep(ctx, files.GrepRequest{
		Pattern: r.Pattern, Path: r.Path, Glob: r.Glob, Mode: r.Mode,
		IgnoreCase: r.IgnoreCase, Literal: r.Literal, Multiline: r.Multiline,
		Before: r.Before, After: r.After, Limit: r.Limit, Ignored: r.Ignored,
	})
}
