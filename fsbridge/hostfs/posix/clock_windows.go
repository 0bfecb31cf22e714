package posix

import "golang.org/x/sys/windows"

// Now is the moment, in nanoseconds since 1970: no file that was changed before the call has a later time, if its file system takes its times
// from this machine's clock. (time.Now does not promise that on Windows: it is the last tick of the clock, of which there can be 64 in a second.)
func Now() int64 {
	var t windows.Filetime
	windows.GetSystemTimePreciseAsFileTime(&t)
	return t.Nanoseconds()
}
