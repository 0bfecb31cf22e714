package jail

import (
	"fmt"
	"os"

	"github.com/codeagent/sandbox/hypervisor/jail/ids"
)

// mapIDs writes the ids of a process's user namespace. They are mapped to
// themselves. Root maps all that there are here (in a container they may be few)
// and stays root until the view is made (/dev/fuse may be his alone); another user
// has no choice.
func mapIDs(pid int) error {
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		if err := writeProc(pid, "setgroups", "deny"); err != nil {
			return err
		}
		return writeIDMaps(pid, fmt.Sprintf("%d %d 1\n", uid, uid), fmt.Sprintf("%d %d 1\n", gid, gid))
	}
	uids, err := ids.Own("uid_map")
	if err != nil {
		return err
	}
	gids, err := ids.Own("gid_map")
	if err != nil {
		return err
	}
	return writeIDMaps(pid, ids.Identity(uids), ids.Identity(gids))
}

func writeIDMaps(pid int, uids, gids string) error {
	if err := writeProc(pid, "uid_map", uids); err != nil {
		return err
	}
	return writeProc(pid, "gid_map", gids)
}

func writeProc(pid int, name, text string) error {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/%s", pid, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
