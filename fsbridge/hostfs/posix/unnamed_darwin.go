package posix

import "os"

// Unnamed makes a file in the directory dir of the host, for this program alone. Its name is gone at once, and it is gone when it is closed.
func Unnamed(dir string) (*os.File, error) { return nameless(dir) }
