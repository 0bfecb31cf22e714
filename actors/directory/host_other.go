//go:build !unix

package directory

func sameFileSystem(string, string) bool { return false }
