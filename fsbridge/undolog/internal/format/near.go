package format

import "fmt"

// Nearly is the part of a limit, in hundredths, from which on somebody is told that it is near.
const Nearly = 80

// Near says of the two limits at which old steps go, the number of steps and the size of the whole log in bytes, that it is near or reached, each at its
// own place. A limit that is far, or that there is not, leaves its place empty.
func (l Limits) Near(steps int, stored int64) (near [2]string) {
	if reached(int64(steps), int64(l.StepCount)) {
		near[0] = fmt.Sprintf("the undo history has %d of %d steps (undo.max_steps): when it is full, the oldest step goes with each new one", steps, l.StepCount)
	}
	if reached(stored, l.LogBytes) {
		near[1] = fmt.Sprintf("the undo history takes %.0f%% of what it may (undo.max_bytes): when it is full, the oldest steps go", 100*float64(stored)/float64(l.LogBytes))
	}
	return near
}

func reached(n, limit int64) bool { return limit > 0 && float64(n) >= Nearly*float64(limit)/100 }

// NearStep tells whether a step that has copied from bytes, and then to, has passed the point from which on its own limit is near.
func (l Limits) NearStep(from, to int64) bool {
	return reached(to, l.StepBytes) && !reached(from, l.StepBytes)
}
