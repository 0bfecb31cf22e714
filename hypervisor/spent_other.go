//go:build !linux

package hypervisor

import "time"

// TreeCPUTime is not known here.
func TreeCPUTime(int) (time.Duration, bool) { return 0, false }
