//go:build !portable

package posix

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// CreateAs runs make, which makes one file, so that the file belongs to uid and gid: the
// kernel gives it to them itself, and knows what a setgid directory, a mount option or
// a quota says about it. Giving it away afterwards would not do: under its name there
// can be another file by then.
//
// make may write into every directory that we may write into: whether uid may is for
// the caller to check. Only root can do this. Where an identity does not exist in our
// user namespace, the file stays ours.
func CreateAs(uid, gid uint32, make func() error) error {
	runtime.LockOSThread() // all of this is the thread's
	defer runtime.UnlockOSThread()
	wasUID, _ := unix.SetfsuidRetUid(-1) // sets nothing
	wasGID, _ := unix.SetfsgidRetGid(-1)
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had [2]unix.CapUserData
	if err := unix.Capget(&hdr, &had[0]); err != nil {
		return err
	}
	// In this order there and back: whoever is another user may not change the group.
	_, _ = unix.SetfsgidRetGid(int(gid))
	_, _ = unix.SetfsuidRetUid(int(uid))
	defer func() {
		for { // it fails only as long as the kernel has no memory
			_, _ = unix.SetfsuidRetUid(wasUID)
			_, _ = unix.SetfsgidRetGid(wasGID)
			u, _ := unix.SetfsuidRetUid(-1)
			g, _ := unix.SetfsgidRetGid(-1)
			if u == wasUID && g == wasGID && unix.Capset(&hdr, &had[0]) == nil {
				return
			}
		}
	}()
	if err := passModes(&hdr, &had); err != nil {
		return err
	}
	return make()
}

// passModes gives the thread back what another user's identity took of its rights and
// what making a file needs.
func passModes(hdr *unix.CapUserHeader, had *[2]unix.CapUserData) error {
	const rights = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	var now [2]unix.CapUserData
	if err := unix.Capget(hdr, &now[0]); err != nil {
		return err
	}
	if now[0].Effective&rights == had[0].Effective&rights {
		return nil
	}
	now[0].Effective |= had[0].Effective & rights
	return unix.Capset(hdr, &now[0])
}
