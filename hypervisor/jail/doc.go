// Package jail is the isolation runtime that needs nothing but a Linux kernel
// (5.12 or newer) and /dev/fuse: namespaces, a mount view, no capabilities and a
// seccomp filter.
//
// # What is inside
//
// The host's tree at its usual paths, read-only; the working folders through
// the bridges, read-write; /proc, /dev, /tmp, /var/tmp and /run of its own; a
// loopback interface of its own; nothing of the host's processes. Well-known
// secrets are covered (secrets.go), as is what [hypervisor.Config] names, also
// under other paths by which the same directory can be reached (other mounts of
// one file system).
//
// # Who is inside
//
// Never root. Started as root, the workload gets the uid of the user who called
// sudo, else [AnonymousUID], which owns nothing; a home directory that it may not
// search is replaced by an empty one. Otherwise it has the user's own uid.
// Either way the ids are mapped to themselves, so requests at a bridge carry the
// numbers that the host knows.
//
// # How it is made
//
// The supervisor works out a plan and starts sandbox-guest, from a memfd, as
// the builder (see guest/inner). The builder sends back a /dev/fuse descriptor
// for each folder and starts PID 1, with which commands are exchanged
// (guest/control). The builder and PID 1 die with the supervisor and with each
// other. All mounts are in their namespaces only: nothing can be left behind.
package jail
