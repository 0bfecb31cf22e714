// Package mounts reads /proc/PID/mountinfo and finds the other paths at which what is mounted can
// be seen. Who is on the machine may have chosen the names in it. Nothing here has a state.
package mounts
