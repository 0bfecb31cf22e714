package jail

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/guest/script"
	"github.com/codeagent/sandbox/hypervisor/filters"
)

// swapped makes a user namespace in which root and the workload change places, for
// the folders' mounts.
func swapped(uid, gid int) (_ *os.File, err error) {
	uids, err := swapOwn("uid_map", uid)
	if err != nil {
		return nil, err
	}
	gids, err := swapOwn("gid_map", gid)
	if err != nil {
		return nil, err
	}
	var ns *os.File
	err = script.Helper(unix.CLONE_NEWUSER, nil, func(w *script.Writer) { w.Call("the end", unix.SYS_EXIT_GROUP, 0) }, func(pid int, _ control.FDConn) error {
		if err := writeIDMaps(pid, uids, gids); err != nil {
			return err
		}
		ns, err = filters.OpenUntraced(fmt.Sprintf("/proc/%d/ns/user", pid), os.O_RDONLY)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("a user namespace for the folders' mounts: %w", err)
	}
	return ns, nil
}

func swapOwn(name string, id int) (string, error) {
	own, err := ownIDs(name)
	if err != nil {
		return "", err
	}
	return swapIDs(own, 0, uint32(id))
}
