//go:build !unix

package stdio

import "os"

// readNow reads on: pipes cannot be asked here.
func readNow(f *os.File, b []byte) (int, error) { return f.Read(b) }
