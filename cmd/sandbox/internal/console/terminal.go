package console

import "time"

// drainQuiet is how long the pseudo-terminal must be silent after the command's
// end if something still holds it open, and drainMost how long that may take.
const (
	drainQuiet = 30 * time.Millisecond
	drainMost  = time.Second
	// awayTick is how often a job in the background looks whether it still is.
	awayTick = 100 * time.Millisecond
)

// endOfFile is what is typed for an end of file.
const endOfFile = 4
