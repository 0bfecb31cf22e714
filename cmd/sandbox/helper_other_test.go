//go:build !linux

package main

// exits is for tests on Linux.
func exits([]string) int { return 1 }
