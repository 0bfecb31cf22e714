package messages

import "time"

// How long a session waits for its folders where nothing else is set: the only home of these defaults.
const (
	// QuietTime is how long nothing has to be written in a folder before a step that has ended is closed.
	QuietTime = 100 * time.Millisecond
	// QuietMax is how long a step waits for that at most.
	QuietMax = 2 * time.Second
	// AmbientIdle is how long nobody writes before an ambient step is closed.
	AmbientIdle = 5 * time.Second
	// ServiceAfter is how long a command that outlives its connection runs in a step before it becomes a service.
	ServiceAfter = time.Minute
)
