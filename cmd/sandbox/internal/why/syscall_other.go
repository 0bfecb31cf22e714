//go:build !linux

package why

import (
	"errors"

	"github.com/codeagent/sandbox/actors/api"
)

// syscall explains nothing: guests on this system share no kernel that filters.
func (c Commands) syscall(api.Config, string) error {
	return errors.New("only Linux filters system calls of commands")
}
