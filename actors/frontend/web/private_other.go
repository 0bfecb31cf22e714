//go:build !unix

package web

import "io/fs"

const nonblocking = 0

// exposed has nothing to say here: a file has its directory's rights.
func exposed(fs.FileInfo) string { return "" }
