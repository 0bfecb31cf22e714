//go:build !linux

package files

import (
	"context"
	"errors"
)

// Write returns errors.ErrUnsupported.
func (wr *Writer) Write(context.Context, string, WriteOptions) (WriteResult, error) {
	return WriteResult{}, errors.ErrUnsupported
}

// Edit returns errors.ErrUnsupported.
func (wr *Writer) Edit(context.Context, string, EditOptions) (WriteResult, error) {
	return WriteResult{}, errors.ErrUnsupported
}
