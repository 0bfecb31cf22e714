package doctor

import (
	"strings"
	"syscall"
	"testing"
)

// TestLandlockDetail: what a jail lacks is said for each version, and what to do about it.
func TestLandlockDetail(t *testing.T) {
	for _, c := range []struct {
		abi         int
		errno       syscall.Errno
		state, says string
	}{
		{-1, syscall.ENOSYS, "warn", "named pipes"}, {-1, syscall.EOPNOTSUPP, "warn", "named pipes"}, {1, 0, "warn", "named pipes"},
		{2, 0, "ok", "truncation"}, {3, 0, "ok", "writable places alone"}, {5, 0, "ok", "ABI 5"}, {6, 0, "ok", "signals"}, {7, 0, "ok", "ABI 7"},
	} {
		f := landlockDetail(c.abi, c.errno)
		if f.State != c.state || !strings.Contains(f.Detail, c.says) || (f.State == "warn") != (f.Advice != "") {
			t.Errorf("%d, %v: %+v", c.abi, c.errno, f)
		}
	}
}
