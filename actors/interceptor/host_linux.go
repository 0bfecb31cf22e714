package interceptor

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// dying reports whether the thread is gone, dead, or has SIGKILL pending: a
// fatal signal of any kind shows as that. Whatever cannot be read is taken for
// alive; write-back (pid 0) never dies.
func dying(pid uint32) bool {
	if pid == 0 {
		return false
	}
	f, err := os.Open("/proc/" + strconv.FormatUint(uint64(pid), 10) + "/status")
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	const kill = 1 << (unix.SIGKILL - 1)
	for s := bufio.NewScanner(f); s.Scan(); {
		key, value, _ := strings.Cut(s.Text(), ":")
		value = strings.TrimSpace(value)
		switch key {
		case "State":
			if strings.HasPrefix(value, "Z") || strings.HasPrefix(value, "X") {
				return true
			}
		case "SigPnd", "ShdPnd":
			if mask, err := strconv.ParseUint(value, 16, 64); err == nil && mask&kill != 0 {
				return true
			}
		}
	}
	return false
}

// statSize asks the host for the size of a file, in bytes.
func statSize(o *fsbridge.Object) (int64, bool) {
	if o.Place == nil {
		return 0, false
	}
	fd, err := o.Place.Open(unix.O_PATH)
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
	case errors.Is(err, unix.ENOENT) && o == nil:
		return nil
	case err != nil:
		return err
	case o == nil || st.ID != o.ID:
		return fmt.Errorf("%w: %w", hostfs.ErrChanged, unix.ESTALE)
	}
	return nil
}
