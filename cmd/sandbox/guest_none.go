//go:build !embedguest

package main

// guestBinary is empty in a build without the embedded guest program: this
// program is then executed again in its place.
func guestBinary() []byte { return nil }
