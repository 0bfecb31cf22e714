package e2b

import "syscall"

// usage looks at the machine, and at the file system that path is on.
func (s *Server) usage(path string) (u usage) {
	var i syscall.Sysinfo_t
	if syscall.Sysinfo(&i) == nil {
		u.memory = int64(i.Totalram) * int64(i.Unit)
		u.memoryUsed = u.memory - int64(i.Freeram+i.Bufferram)*int64(i.Unit)
	}
	var f syscall.Statfs_t
	if syscall.Statfs(path, &f) == nil {
		u.disk = int64(f.Blocks) * f.Bsize
		u.diskUsed = u.disk - int64(f.Bfree)*f.Bsize
	}
	return u
}
