// Package filesystems mounts small file systems of the kinds that people have, so that a test can
// work on each of them.
package filesystems
