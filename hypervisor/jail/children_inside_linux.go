package jail

import (
	"os"
	"strconv"
)

// Inside returns how many processes other than the first are alive in the pid namespace of the process. It
// does not see into pid namespaces that were made in that.
func (c *childProcesses) Inside() (int, error) {
	if c.None() {
		return 0, nil
	}
	inside, err := os.Readlink("/proc/" + strconv.Itoa(c.pid) + "/ns/pid")
	if err != nil {
		return 0, err
	}
	names, err := numbers("/proc")
	if err != nil {
		return 0, err
	}
	n := 0
	for _, name := range names {
		if name == strconv.Itoa(c.pid) {
			continue
		}
		// A process of somebody else cannot be read, and is not one of ours.
		if ns, err := os.Readlink("/proc/" + name + "/ns/pid"); err == nil && ns == inside {
			n++
		}
	}
	return n, nil
}
