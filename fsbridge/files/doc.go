// Package files reads, searches and writes a working folder from the host's
// side: what frontends do themselves instead of running a command.
//
// The workload shares the folder and is hostile: it may swap a directory for a
// symlink, or a file for a FIFO, at any moment. So no operation resolves a path
// of the host. [Clean] turns what was asked for into a path relative to the
// folder, lexically; everything after that happens relative to the folder's
// descriptor (package hostfs).
package files
