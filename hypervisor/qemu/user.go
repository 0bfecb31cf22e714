package qemu

import (
	"fmt"
	"os"
	"strconv"

	"github.com/codeagent/sandbox/hypervisor"
)

// user is who commands are inside.
type user struct{ uid, gid int }

// workload is the user's own numbers, or, for root, those of who called sudo,
// else [AnonymousUID]; the bridge maps them.
func workload(cfg hypervisor.Config) (user, error) {
	u := user{os.Getuid(), os.Getgid()}
	if u.uid < 0 { // Windows numbers no users
		return user{AnonymousUID, AnonymousUID}, nil
	}
	if u.uid != 0 {
		if cfg.UID > 0 && cfg.UID != u.uid || cfg.GID > 0 && cfg.GID != u.gid {
			return u, fmt.Errorf("qemu: only root can run commands as another user (uid %d)", cfg.UID)
		}
		if u.gid == 0 {
			u.gid = u.uid // nobody inside is in root's group
		}
		return u, nil
	}
	u = user{AnonymousUID, AnonymousUID}
	if id, err := strconv.Atoi(os.Getenv("SUDO_UID")); err == nil && id > 0 {
		u = user{id, id}
		if id, err := strconv.Atoi(os.Getenv("SUDO_GID")); err == nil && id > 0 {
			u.gid = id
		}
	}
	if cfg.UID > 0 {
		u = user{cfg.UID, cfg.UID}
	}
	if cfg.GID > 0 {
		u.gid = cfg.GID
	}
	return u, nil
}
