package hypervisor

import (
	"fmt"

	"github.com/codeagent/sandbox/guest/nofile"
)

// Numbered returns an error, for whoever runs the command, if one of its descriptors has a number that nothing inside may have: the hard limit of open files that
// this program was started with is that of all that it starts.
func Numbered(further []Descriptor) error {
	_, hard := nofile.Started()
	for _, d := range further {
		if hard != 0 && uint64(d.Number) >= hard {
			return fmt.Errorf("descriptor %d: the session was started with a limit of %d open files (ulimit -n), so nothing inside has that number: take a lower one, "+
				"close it, as with %d<&-, or pass none (--no-fds)", d.Number, hard, d.Number)
		}
	}
	return nil
}
