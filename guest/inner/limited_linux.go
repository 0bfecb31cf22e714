//go:build amd64 || arm64

package inner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// isLimited tells whether a program is started as [control.StageLimits].
func isLimited(args []string) bool { return len(args) >= 5 && args[1] == control.StageLimits }

// limited limits this process and becomes a program: args are the limits, the program's path and its arguments. It returns only if it cannot.
func limited(args []string) int {
	runtime.LockOSThread() // how nice it is is the thread's
	var l control.Limits
	err := json.Unmarshal([]byte(args[0]), &l)
	if err == nil {
		path, argv, env := args[1], args[2:], os.Environ()
		apply(l)
		err = syscall.Exec(path, argv, env)
		if errors.Is(err, syscall.ENOEXEC) { // a script without an interpreter line, as shells take it
			err = syscall.Exec("/bin/sh", append([]string{"/bin/sh", path}, argv[1:]...), env)
		}
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", args[2], err)
	return 126
}

// apply limits this process. What may not be raised stays lower.
func apply(l control.Limits) {
	if l.Nice > 0 {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, l.Nice)
	}
	slices.SortFunc(l.List, func(a, b control.Limit) int { return rank(a) - rank(b) })
	for _, limit := range l.List {
		var own syscall.Rlimit
		if err := syscall.Getrlimit(limit.Resource, &own); err != nil {
			continue
		}
		next := syscall.Rlimit{Max: min(limit.Hard, own.Max)}
		if next.Cur = min(limit.Soft, next.Max); ours(limit.Resource) {
			next.Cur = min(next.Cur, own.Cur)
		}
		_ = syscall.Setrlimit(limit.Resource, &next)
	}
}

// ours tells whether the session has a limit of its own of that, which only becomes lower.
func ours(resource int) bool {
	return resource == unix.RLIMIT_NPROC || resource == unix.RLIMIT_FSIZE || resource == unix.RLIMIT_DATA
}

// rank puts memory last: with that limit, there may be no more of it.
func rank(l control.Limit) int {
	if l.Resource == unix.RLIMIT_AS || l.Resource == unix.RLIMIT_DATA {
		return 1
	}
	return 0
}
