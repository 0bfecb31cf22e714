// Package rawfs makes system calls on names that end with a NUL: package unix copies each string to
// add one. Nothing here but
// [PathOf] allocates, and none of it locks or remembers anything.
//
// It trusts the kernel, and the names not at all.
package rawfs
