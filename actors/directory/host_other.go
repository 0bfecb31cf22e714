//go:build !unix

package directory

func sameFileSystem(string, string) bool { return false }
func ours(string) bool                   { return false }
func canMake(string) error               { return nil }
