//go:build embedguest

package main

import _ "embed"

//go:embed embed/sandbox-guest-amd64
var embeddedGuest []byte

// guestBinary is the static guest program that 'make build' put here.
func guestBinary() []byte { return embeddedGuest }
