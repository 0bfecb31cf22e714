package launch

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// lockFile is the file of an undo log that says whose it is; maxLockFile is what is read of it.
const (
	lockFile    = "lock"
	maxLockFile = 64 << 10
)

// Histories lists the folders whose logs lie where they do by default. A log is believed only
// if it lies where its folder's log belongs.
func Histories() ([]api.Directory, error) {
	state, err := actors.StateDir()
	if err != nil {
		return nil, err
	}
	all := filepath.Join(state, "undo")
	entries, err := os.ReadDir(all)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []api.Directory
	for _, e := range entries {
		dir := filepath.Join(all, e.Name())
		b, _, err := hostfs.ReadRegular(filepath.Join(dir, lockFile), maxLockFile, false)
		if err != nil {
			continue
		}
		var owner undolog.Owner
		if json.Unmarshal(b, &owner) != nil || !filepath.IsAbs(owner.WorkDir) {
			continue
		}
		if belongs, err := actors.DefaultUndoDir(owner.WorkDir); err != nil || belongs != dir {
			continue
		}
		list = append(list, api.Directory{Path: owner.WorkDir, UndoDir: dir})
	}
	return list, nil
}
