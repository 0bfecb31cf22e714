// Package devices finds the devices of the host that somebody wants in a jail (--device), and refuses those by which the jail would be none.
//
// What a device does when it is asked is its driver's: no view and no undo log is between. So a disk, the machine's memory, and what the
// user types are refused unless they are named twice, and terminals always.
package devices
