//go:build !linux

package files

import (
	"context"
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

var errUnsupported = fmt.Errorf("working folders need Linux so far: %w", errors.ErrUnsupported)

// Options configures a [Folder].
type Options struct {
	Root   *hostfs.Root
	Dirs   *fsbridge.DirLocks
	Hidden []string
}

// Folder reads a working folder. Only Linux has it so far.
type Folder struct{}

// New returns an error wrapping errors.ErrUnsupported, and so do all methods.
func New(Options) (*Folder, error) { return nil, errUnsupported }

// Close does nothing.
func (f *Folder) Close() {}

// Rel is not supported.
func (f *Folder) Rel(string) (string, error) { return "", errUnsupported }

// Read is not supported.
func (f *Folder) Read(context.Context, ReadRequest) (Content, error) {
	return Content{}, errUnsupported
}

// List is not supported.
func (f *Folder) List(context.Context, ListRequest) (Listing, error) {
	return Listing{}, errUnsupported
}

// Glob is not supported.
func (f *Folder) Glob(context.Context, GlobRequest) (Found, error) { return Found{}, errUnsupported }

// Grep is not supported.
func (f *Folder) Grep(context.Context, GrepRequest) (Results, error) {
	return Results{}, errUnsupported
}
