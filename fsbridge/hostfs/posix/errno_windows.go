package posix

// native tells whether e is the host's error target.
func native(Errno, error) bool { return false }
