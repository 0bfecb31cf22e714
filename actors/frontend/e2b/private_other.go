//go:build !unix

package e2b

import (
	"fmt"
	"os"
)

// private looks at what there is of rights here: nothing but the kind of the file.
func private(path string, st os.FileInfo) error {
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s: it is no regular file", path)
	}
	return nil
}
