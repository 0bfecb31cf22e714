package jail

import (
	"os"
	"strconv"
)

// Processes returns how many processes other than PID 1 are alive inside, so
// that a step whose last process has ended need not wait for late writes. It
// does not see into pid namespaces that were made inside; what is written from
// there after the command's end is an ambient step at worst.
func (g *guest) Processes() (int, error) {
	inside, err := os.Readlink("/proc/" + strconv.Itoa(g.pid) + "/ns/pid")
	if err != nil {
		return 0, err
	}
	names, err := numbers("/proc")
	if err != nil {
		return 0, err
	}
	n := 0
	for _, name := range names {
		if name == strconv.Itoa(g.pid) {
			continue
		}
		// A process of somebody else cannot be read, and is not one of ours.
		if ns, err := os.Readlink("/proc/" + name + "/ns/pid"); err == nil && ns == inside {
			n++
		}
	}
	return n, nil
}
