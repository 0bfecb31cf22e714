// Package posixmeta tests --posix-metadata through the whole program: a folder is
// served by real FUSE mounts as if its file system were Windows', and steps are
// undone, done again, restored and killed.
package posixmeta
