package console

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/inherit"
)

// PassedSignals are the descriptors beyond the standard three that the command gets: those that whoever started this program has passed on, as far as
// they lead nowhere else. It says which do not, unless none is wanted. From then on no other program that this one starts inherits them.
func PassedSignals(stderr io.Writer, none bool) (list []hypervisor.Descriptor) {
	numbers := inherit.PassedDescriptors()
	inherit.KeepDescriptors(numbers)
	if none {
		return nil
	}
	var refused []string
	for _, n := range numbers {
		err := inherit.CheckDescriptor(n, inherit.FurtherDescriptors)
		switch {
		case err != nil:
			refused = append(refused, strconv.Itoa(n)+" "+err.Error())
		case len(list) == inherit.MostDescriptors:
			refused = append(refused, fmt.Sprintf("%d is one of more than %d", n, inherit.MostDescriptors))
		default:
			list = append(list, hypervisor.Descriptor{Number: n, File: os.NewFile(uintptr(n), "descriptor "+strconv.Itoa(n))})
		}
	}
	if len(refused) > 0 {
		fmt.Fprintf(stderr, "sandbox: the command does not get all descriptors: %s (--no-fds passes none, and says nothing)\n", strings.Join(refused, ", "))
	}
	return list
}

// IgnoredSignals are the signals that the command ignores at its start: see [inherit.IgnoredSignal].
func IgnoredSignals() []int { return inherit.IgnoredSignal() }

// Asks reports whether this process has a terminal that its user can be asked on.
func Asks() bool { return inherit.HasTerminal() }
