//go:build linux && !amd64

package files

import "github.com/codeagent/sandbox/tests/cmd/fsemantics/check/record"

// legacyCalls are those of amd64.
func legacyCalls(c *record.Seen) { c.See("none", true) }
