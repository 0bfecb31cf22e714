// Package guestcache reaches the caches of a guest to which no notification can be
// sent, as a virtual machine's over virtio-fs or 9P: a program inside, the shim, drops
// them and writes them back when it is asked to. The trees decide what is stale.
// It also knows the sessions of such a guest: what one life of its mount has.
package guestcache
