package inherit

import "syscall"

// PassedDescriptors are the descriptors beyond the standard three that whoever started this process has passed to it, by number. Those that the program
// opened itself are closed when it executes another, so what is not was open before. It takes some microseconds.
func PassedDescriptors() (numbers []int) {
	dir, err := syscall.Open("/proc/self/fd", syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(dir)
	var open [HighestDescriptor + 1]bool
	buf := make([]byte, 4096)
	for {
		n, err := syscall.ReadDirent(dir, buf)
		if err != nil || n <= 0 {
			break
		}
		_, _, names := syscall.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			if fd, ok := number(name); ok {
				open[fd] = true
			}
		}
	}
	for fd := 3; fd <= HighestDescriptor; fd++ {
		if !open[fd] {
			continue
		}
		if flags, err := fcntl(fd, syscall.F_GETFD, 0); err == nil && flags&syscall.FD_CLOEXEC == 0 {
			numbers = append(numbers, fd)
		}
	}
	return numbers
}

// number reads a decimal number up to [HighestDescriptor].
func number(s string) (n int, ok bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' || n > HighestDescriptor {
			return 0, false
		}
		n = 10*n + int(s[i]-'0')
	}
	return n, len(s) > 0 && n <= HighestDescriptor
}

// KeepDescriptors keeps those descriptors from the programs that this process executes: a session in the background would hold them for as long as it lives.
func KeepDescriptors(numbers []int) {
	for _, fd := range numbers {
		_, _ = fcntl(fd, syscall.F_SETFD, syscall.FD_CLOEXEC) // fails only if it is closed
	}
}
