//go:build linux && faults

package launch

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
)

// ProbeVar names files, as [filepath.SplitList] has them, that a program which is built with the tag "faults" tries to open once it is behind rules: for reading, and for writing. It says on stderr, in
// each of a few threads, which it could open.
const ProbeVar = "SANDBOX_PROBE"

func probe(log *slog.Logger) {
	for _, path := range filepath.SplitList(os.Getenv(ProbeVar)) {
		for range 4 {
			done := make(chan [2]error)
			go func() {
				runtime.LockOSThread() // and never unlocked
				done <- [2]error{try(path, os.O_RDONLY), try(path, os.O_WRONLY)}
			}()
			err := <-done
			log.Warn("probe", "component", "control", "path", path, "read", err[0] == nil, "write", err[1] == nil)
		}
	}
}

func try(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return err
	}
	return f.Close()
}
