package actors

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/actors/directory"
)

// Forget removes all that is kept for a working folder which nobody is to use again, but not the folder; see [directory.Forget]. With it goes what people have decided for this folder alone.
func Forget(ctx context.Context, workdir, undoDir string) error {
	if err := directory.Forget(ctx, workdir, undoDir); err != nil {
		return err
	}
	state, err := StateDir()
	if err != nil {
		return nil //nolint:nilerr // there is no place for rules
	}
	if err := os.Remove(approval.Standard(state, workdir).File(approval.Project).Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
