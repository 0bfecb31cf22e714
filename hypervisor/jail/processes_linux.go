package jail

import (
	"os"
	"strconv"
)

// Processes returns how many processes other than PID 1 are alive inside, so
// that a step whose last process has ended need not wait for late writes. Where
// there are some it does not see into pid namespaces that were made inside.
func (g *guest) Processes() (int, error) {
	if g.children.None() {
		return 0, nil
	}
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
