//go:build !linux

package actors

import "os"

// unnamed makes a file that is gone when it is closed, in the system's place for such: what is kept beside a log there would have a name.
func unnamed(string) (*os.File, error) {
	f, err := os.CreateTemp("", "sandbox-upload-*")
	if err == nil {
		_ = os.Remove(f.Name()) // Windows removes no open file; its own clean-up does
	}
	return f, err
}
