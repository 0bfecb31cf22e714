//go:build embedguest

package launch

import _ "embed"

//go:embed embed/sandbox-guest-amd64
var embeddedGuest []byte

// EmbeddedGuest is the static guest program that 'make build' put here.
func EmbeddedGuest() []byte { return embeddedGuest }
