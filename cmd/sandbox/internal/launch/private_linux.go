package launch

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// private checks that nobody else can put anything into dir.
func private(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Getuid() || st.Mode&0o077 != 0 {
		return fmt.Errorf("%s is not a private directory of this user; remove it or set XDG_RUNTIME_DIR", dir)
	}
	return nil
}
