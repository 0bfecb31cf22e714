package hypervisor

import "time"

// What a virtual machine has where nothing else is set: the only home of these figures.
const (
	// MachineBytes is its memory.
	MachineBytes = 1 << 30
	// MachineBoot is how long it has until it takes commands.
	MachineBoot = 60 * time.Second
)
