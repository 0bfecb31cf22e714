//go:build !unix

package hostfs

import (
	"fmt"
	"io/fs"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// own refuses what others can change.
func own(path string, _ fs.FileInfo) error {
	if err := posix.OthersCanWritePath(path); err != nil {
		return fmt.Errorf("%s: %w: it does not count", path, err)
	}
	return nil
}
