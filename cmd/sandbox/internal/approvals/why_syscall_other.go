//go:build !linux

package approvals

import (
	"errors"

	"github.com/codeagent/sandbox/actors/api"
)

// syscall explains nothing: guests on this system share no kernel that filters.
func (c WhyCommands) syscall(api.Config, string) error {
	return errors.New("only Linux filters system calls of commands")
}
