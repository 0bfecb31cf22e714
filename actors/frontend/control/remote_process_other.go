//go:build !unix

package control

func processAlive(int) bool { return false }
