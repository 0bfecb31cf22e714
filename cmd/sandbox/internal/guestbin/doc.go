// Package guestbin holds the guest program (cmd/sandbox-guest) within this one,
// where the build has put it there: 'make build' does, with the tag embedguest.
// In a build without it, a jail executes this program in its place.
package guestbin
