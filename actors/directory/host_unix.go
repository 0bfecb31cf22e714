//go:build unix

package directory

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// sameFileSystem reports whether two existing paths have one device number.
func sameFileSystem(a, b string) bool {
	var sa, sb unix.Stat_t
	return unix.Stat(a, &sa) == nil && unix.Stat(b, &sb) == nil && sa.Dev == sb.Dev
}

// ours reports whether dir is this user's alone to write to.
func ours(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && int(st.Uid) == os.Geteuid() && st.Mode&0o022 == 0
}

// canMake says why no directory of this user's own can be made in dir, or is safe there.
func canMake(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return err
	}
	if owner := int(st.Uid); st.Mode&0o002 != 0 && (st.Mode&unix.S_ISVTX == 0 || owner != 0 && owner != os.Geteuid()) {
		return errors.New("everybody may write to " + dir + ", and others may remove what is ours")
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return errors.New(dir + ": " + err.Error())
	}
	return nil
}
