// Package fulldisk gives tests a small file system that they can fill: a real tmpfs, on which writes
// fail with ENOSPC.
package fulldisk
