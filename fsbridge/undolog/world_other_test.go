//go:build !linux

package undolog

import "testing"

// testDir is a directory for tests.
func testDir(tb testing.TB) string { return tb.TempDir() }
