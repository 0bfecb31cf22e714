//go:build !unix

package remote

func processAlive(int) bool { return false }
