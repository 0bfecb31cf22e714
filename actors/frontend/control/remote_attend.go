package control

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// attendsSuffix is that of the files that [Attend] makes.
const attendsSuffix = ".attends"

// Attend says that this process shows a person what the user's sessions ask, until leave is called or the process has ended. It is safe for concurrent use.
func Attend(runtimeDir string) (leave func(), err error) {
	f, err := os.CreateTemp(runtimeDir, fmt.Sprintf("%d-*%s", os.Getpid(), attendsSuffix))
	if err != nil {
		return nil, fmt.Errorf("attend to questions: %w", err)
	}
	err = f.Close()
	var lock *hostfs.FileLock
	if err == nil {
		lock, err = hostfs.LockFile(f.Name(), true) // for a moment, somebody may look whether it is locked
	}
	if err != nil {
		return nil, fmt.Errorf("attend to questions: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return func() { _ = os.Remove(f.Name()); _ = lock.Close() }, nil // once more does no harm
}

// Attended reports whether a process does what [Attend] says. What killed ones have left is removed.
func Attended(runtimeDir string) bool {
	entries, err := os.ReadDir(runtimeDir)
	if err != nil {
		return false
	}
	found := false
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), attendsSuffix) && e.Type().IsRegular() && held(filepath.Join(runtimeDir, e.Name())) {
			found = true
		}
	}
	return found
}

// held reports whether somebody holds the lock of a file. If nobody does and its process has ended, the file is removed.
func held(path string) bool {
	locked, err := hostfs.Locked(path)
	name, _, _ := strings.Cut(filepath.Base(path), "-")
	if pid, bad := strconv.Atoi(name); err == nil && !locked && (bad != nil || !processAlive(pid)) { // else it is about to lock it
		_ = os.Remove(path)
	}
	return locked
}
