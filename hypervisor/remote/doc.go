// Package remote is what the runtimes share whose guests speak the control
// channel (guest/control): running commands, their environment, the guest's end (by itself, or because it is
// stopped), and keeping the end of what a guest's first process or console says.
package remote
