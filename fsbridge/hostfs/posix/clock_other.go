//go:build !windows

package posix

import "time"

// Now is the moment, in nanoseconds since 1970: no file that was changed before the call has a later time, if its file system takes its times
// from this machine's clock.
func Now() int64 { return time.Now().UnixNano() }
