//go:build !unix

package actors

func sameFileSystem(string, string) bool { return false }
