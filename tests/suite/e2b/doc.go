// Package e2b drives the real program with E2B's own SDK from npm: the scripts beside this file make sandboxes, run commands in them, read and write files, use
// terminals and ports, pause, take snapshots, and undo. One server serves all of them.
//
// package-lock.json pins the SDK; the tests install it, once, into node_modules beside it, by npm ci and without running anything of its.
//
// SANDBOX_E2B_LARGE=1 moves a file of 100 MB, too.
package e2b
