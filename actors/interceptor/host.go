package interceptor

import (
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// statSize asks the host for the size of a file, in bytes.
func statSize(o *fsbridge.Object) (int64, bool) {
	if o.Place == nil {
		return 0, false
	}
	fd, err := o.Place.Open(posix.O_PATH)
	if err != nil {
		return 0, false
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatFD(fd)
	return st.Size, err == nil
}

// renew looks again at what op names, after it waited: a rollback or somebody
// outside may have bound the names to other inodes meanwhile (ESTALE, upon
// which the kernel looks the path up afresh), and what the bridge saw of the
// inodes is old. The guard is held.
func renew(op *fsbridge.Op) error {
	op.NodeStat, op.VictimStat = hostfs.Stat{}, hostfs.Stat{}
	switch op.Kind {
	case fsbridge.OpUnlink, fsbridge.OpRmdir:
		return bound(op.DirFD, op.Name, op.Node)
	case fsbridge.OpRename:
		if err := bound(op.DirFD, op.Name, op.Node); err != nil {
			return err
		}
		return bound(op.NewDirFD, op.NewName, op.Victim)
	}
	return nil
}

// bound checks that name in a directory is the object, or nothing if that is
// nil.
func bound(dirfd int, name string, o *fsbridge.Object) error {
	st, err := hostfs.StatAt(dirfd, name)
	switch {
	case errors.Is(err, posix.ENOENT) && o == nil:
		return nil
	case err != nil:
		return err
	case o == nil || st.ID != o.ID:
		return fmt.Errorf("%w: %w", hostfs.ErrChanged, posix.ESTALE)
	}
	return nil
}
