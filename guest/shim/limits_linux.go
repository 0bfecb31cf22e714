package shim

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

// limitedArgs are the arguments of this program that has it limit itself and become the program at path ([Limited]). A process is limited by itself, before it is
// what it becomes: our own limits would be those of everything that is started meanwhile, and a hard one could not be taken back.
func limitedArgs(l *control.Limits, path string, argv []string) ([]string, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	return append([]string{control.GuestProgram, control.StageLimits, string(text), path}, argv...), nil
}

// Limited limits this process and becomes a program, as [control.StageLimits]: args are the limits, the program's path and its arguments. It returns only if it
// cannot.
func Limited(args []string) int {
	runtime.LockOSThread() // how nice it is is the thread's
	var l control.Limits
	err := json.Unmarshal([]byte(args[0]), &l)
	if err == nil {
		path, argv, env := args[1], args[2:], os.Environ()
		if l.Nice > 0 {
			_ = unix.Setpriority(unix.PRIO_PROCESS, 0, l.Nice) // what may not be is not
		}
		for _, limit := range lowered(&l, ownLimit) {
			_ = syscall.Setrlimit(limit.Resource, &syscall.Rlimit{Cur: limit.Soft, Max: limit.Hard}) // as for how nice it is
		}
		err = syscall.Exec(path, argv, env)
		if errors.Is(err, syscall.ENOEXEC) { // a script without an interpreter line, as shells take it
			err = syscall.Exec("/bin/sh", append([]string{"/bin/sh", path}, argv[1:]...), env)
		}
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", args[2], err)
	return 126
}

// ownLimit is this process's limit.
func ownLimit(resource int) syscall.Rlimit {
	own := syscall.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	_ = syscall.Getrlimit(resource, &own) // it fails for a resource that there is not, which is not set either
	return own
}

// lowered is what becomes of limits in a process with its own: what may not be raised stays lower. The limits of memory come last, since with them there may be
// no more of it.
func lowered(l *control.Limits, own func(resource int) syscall.Rlimit) []control.Limit {
	list := slices.Clone(l.List)
	slices.SortStableFunc(list, func(a, b control.Limit) int { return rank(a) - rank(b) })
	for i := range list {
		limit, has := &list[i], own(list[i].Resource)
		limit.Hard = min(limit.Hard, has.Max)
		if limit.Soft = min(limit.Soft, limit.Hard); ours(limit.Resource) {
			limit.Soft = min(limit.Soft, has.Cur)
		}
	}
	return list
}

// ours tells whether the session has a limit of its own of that, which only becomes lower.
func ours(resource int) bool {
	return resource == unix.RLIMIT_NPROC || resource == unix.RLIMIT_FSIZE || resource == unix.RLIMIT_DATA
}

func rank(l control.Limit) int {
	if l.Resource == unix.RLIMIT_AS || l.Resource == unix.RLIMIT_DATA {
		return 1
	}
	return 0
}
