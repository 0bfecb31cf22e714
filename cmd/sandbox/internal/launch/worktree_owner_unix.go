//go:build unix

package launch

import (
	"fmt"
	"os"
	"syscall"
)

// sameOwner refuses a git directory of another user, as git does.
func sameOwner(dir, folder string) error {
	x, err1 := os.Stat(dir)
	y, err2 := os.Stat(folder)
	if err1 != nil || err2 != nil {
		return fmt.Errorf("%s cannot be examined", dir)
	}
	a, ok1 := x.Sys().(*syscall.Stat_t)
	b, ok2 := y.Sys().(*syscall.Stat_t)
	if !ok1 || !ok2 || a.Uid != b.Uid {
		return fmt.Errorf("the git directory %s belongs to another user than %s", dir, folder)
	}
	return nil
}
