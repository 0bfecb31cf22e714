package interceptor

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
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
