package names

import (
	"slices"

	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/record"
)

// Checks returns the checks.
func Checks() []record.Named {
	return slices.Concat(openChecks(), pathChecks(), dirChecks(), linkChecks())
}
