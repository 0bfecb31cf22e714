//go:build !unix

package frontend

import "os"

// ReadNow reads on, and waits: pipes cannot be asked here.
func ReadNow(f *os.File, b []byte) (int, error) { return f.Read(b) }
