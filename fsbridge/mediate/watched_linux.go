package mediate

import (
	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// ChangedIn says which names somebody outside may have changed. The guest has seen it
// already; the tree looks again where its directories are.
func (f *Folder) ChangedIn([]fsbridge.DirChanges) error {
	f.tree.Invalidate(fsbridge.Changes{})
	return nil
}

// Unwatched says which directories went where nobody follows them.
func (f *Folder) Unwatched([]hostfs.ID) error {
	f.tree.Invalidate(fsbridge.Changes{})
	return nil
}
