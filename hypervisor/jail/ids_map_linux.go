package jail

import (
	"fmt"
	"os"

	"github.com/codeagent/sandbox/hypervisor/filters"
)

// idMap writes the ids of a process's user namespace. They are mapped to
// themselves. Root maps all that there are here (in a container they may be few)
// and stays root until the view is made (/dev/fuse may be his alone); another user
// has no choice.
func idMap(pid int) error {
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		if err := writeProc(pid, "setgroups", "deny"); err != nil {
			return err
		}
		return writeIDMaps(pid, fmt.Sprintf("%d %d 1\n", uid, uid), fmt.Sprintf("%d %d 1\n", gid, gid))
	}
	uidMap, err := ownIDs("uid_map")
	if err != nil {
		return err
	}
	gidMap, err := ownIDs("gid_map")
	if err != nil {
		return err
	}
	return writeIDMaps(pid, idIdentity(uidMap), idIdentity(gidMap))
}

// writeIDMaps writes the maps of a process's user namespace.
func writeIDMaps(pid int, uids, gids string) error {
	if err := writeProc(pid, "uid_map", uids); err != nil {
		return err
	}
	return writeProc(pid, "gid_map", gids)
}

func writeProc(pid int, name, text string) error {
	f, err := filters.OpenUntraced(fmt.Sprintf("/proc/%d/%s", pid, name), os.O_WRONLY)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
