// Package ends is the two ends of a transfer: a server of bytes, and the clients that a
// benchmark runs inside of a jail and outside.
package ends
