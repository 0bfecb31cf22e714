package remote

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/inherit"
	"github.com/codeagent/sandbox/messages/lexical"
)

// Admit returns an error if a descriptor that a command is to be given as it is would lead it out of its view (see package inherit).
// terminal tells for each of the streams whether the command has a pseudo-terminal there instead. Hidden are paths of which no file that is
// neither of them may be: who names a file as a stream means it, and what is open besides may be so by accident.
func Admit(c hypervisor.Command, terminal [3]bool, hidden []string) error {
	for i, f := range []*os.File{c.Stdin, c.Stdout, c.Stderr} {
		if f == nil || terminal[i] {
			continue
		}
		as := inherit.OutputDescriptor
		if i == 0 {
			as = inherit.InputDescriptor
		}
		if err := with(f, func(fd int) error { return inherit.CheckDescriptor(fd, as) }); err != nil {
			name := []string{"standard input", "standard output", "standard error"}[i]
			return fmt.Errorf("%s %w: a command gets files, pipes and pairs of sockets of its caller's; redirect it, as with </dev/null", name, err)
		}
	}
	if err := hypervisor.Numbered(c.Further); err != nil {
		return err
	}
	for _, d := range c.Further {
		err := with(d.File, func(fd int) error {
			if err := inherit.CheckDescriptor(fd, inherit.FurtherDescriptors); err != nil {
				return err
			}
			return visible(fd, hidden)
		})
		if err != nil {
			n := strconv.Itoa(d.Number)
			return fmt.Errorf("descriptor %s %w: close it, as with %s<&-, or pass none (--no-fds)", n, err, n)
		}
	}
	return nil
}

func with(f *os.File, check func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	cerr := conn.Control(func(fd uintptr) { err = check(int(fd)) })
	return errors.Join(cerr, err)
}

// visible returns an error if a descriptor is of a file that is hidden. It goes by the name by which the file was opened: a file that has another
// name that is not hidden can be read by that one, too.
func visible(fd int, hidden []string) error {
	name, err := inherit.DescriptorName(fd)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(hidden, func(h string) bool { return lexical.Within(name, h) }) {
		return fmt.Errorf("is of %q, which is hidden", name)
	}
	return nil
}
