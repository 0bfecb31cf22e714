// Package descriptors says which of a caller's open files a command may have: a list, the same for all runtimes that pass descriptors.
//
// By a directory all of the host could be reached, by a device or a terminal what its user does later, and by a socket that has a name what others
// listen on. So a command gets files, pipes and pairs of sockets, as its standard input and output also the devices that each jail has, and the
// log of a service.
//
// What a program has open beyond the standard three was passed on purpose by whoever started it (exec 9>file, diff <(a) <(b), make's jobserver), or by
// accident. A shell's own are closed when it executes a program. So the rule for these is narrower: no file of the
// kernel's (/proc, a namespace), and none in memory that has no name.
//
// A command also starts with signals ignored that its caller has had ignored: [Ignored].
//
// cmd/sandbox/internal/shortcut uses it before most packages are initialised, so it imports syscall and os/signal only: errors is
// not needed, strings and slices are initialised late.
package descriptors

// Highest is the highest number that a descriptor beyond the standard three may have to be passed, and Most is how many of them are.
const (
	Highest = 1023
	Most    = 24
)

// Kind is why a descriptor is not passed, in words that follow its name.
type Kind string

// Error implements error.
func (k Kind) Error() string { return string(k) }

// The kinds that are not passed.
const (
	Directory Kind = "is a directory"
	Path      Kind = "is a descriptor of a path alone (O_PATH)"
	Device    Kind = "is a device"
	Terminal  Kind = "is a terminal"
	Socket    Kind = "is a socket that has a name, or is of a network"
	Kernel    Kind = "is a file of the kernel's"
	Memory    Kind = "is memory without a name"
	Unknown   Kind = "is of a kind that is not passed"
)

// Use is what a command has a descriptor as.
type Use uint8

// The uses of a descriptor.
const (
	Input   Use = iota // standard input
	Output             // standard output or error
	Further            // any other
)
