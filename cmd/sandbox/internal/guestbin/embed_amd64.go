//go:build embedguest

package guestbin

import _ "embed"

//go:embed embed/sandbox-guest-amd64
var embeddedGuest []byte

// Embedded is the static guest program that 'make build' put here.
func Embedded() []byte { return embeddedGuest }
