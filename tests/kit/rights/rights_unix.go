//go:build unix

package rights

import "os"

// EverybodyWrites lets everybody read and write a file, and change a directory.
func EverybodyWrites(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Chmod(path, st.Mode()|0o666)
}
