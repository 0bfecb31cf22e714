package e2b

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ownGroup is where a container, and so a pod, sees its own control group (version 2). Elsewhere the root of all groups is there, which has no limit.
const ownGroup = "/sys/fs/cgroup"

// usage looks at the machine, or at the container if its memory is limited, and at the file system that path is on.
func (s *Server) usage(path string) (u usage) {
	var i syscall.Sysinfo_t
	if syscall.Sysinfo(&i) == nil {
		u.memory = int64(i.Totalram) * int64(i.Unit)
		u.memoryUsed = u.memory - int64(i.Freeram+i.Bufferram)*int64(i.Unit)
	}
	if limit, used, ok := groupMemory(ownGroup); ok && limit < u.memory {
		u.memory, u.memoryUsed = limit, used
	}
	var f syscall.Statfs_t
	if syscall.Statfs(path, &f) == nil {
		u.disk = int64(f.Blocks) * f.Bsize
		u.diskUsed = u.disk - int64(f.Bfree)*f.Bsize
	}
	return u
}

// groupMemory is the limit of a control group's memory, and how much of it is used, in bytes, without what the kernel would drop; ok is false if it has no limit.
func groupMemory(dir string) (limit, used int64, ok bool) {
	number := func(text string) int64 {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return -1 // "max" is no limit
		}
		return n
	}
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(dir, name))
		return string(b)
	}
	limit, used = number(read("memory.max")), number(read("memory.current"))
	for line := range strings.Lines(read("memory.stat")) {
		if text, is := strings.CutPrefix(line, "inactive_file "); is {
			used -= min(used, max(0, number(text)))
		}
	}
	return limit, used, limit > 0 && used >= 0
}
