package inherit

// HighestDescriptor is the highest number that a descriptor beyond the standard three may have to be passed, and Most is how many of them are.
const (
	HighestDescriptor = 1023
	MostDescriptors   = 24
)

// DescriptorKind is why a descriptor is not passed, in words that follow its name.
type DescriptorKind string

// Error implements error.
func (k DescriptorKind) Error() string { return string(k) }

// The kinds that are not passed.
const (
	DirectoryDescriptor DescriptorKind = "is a directory"
	PathDescriptor      DescriptorKind = "is a descriptor of a path alone (O_PATH)"
	DeviceDescriptor    DescriptorKind = "is a device"
	TerminalDescriptor  DescriptorKind = "is a terminal"
	SocketDescriptor    DescriptorKind = "is a socket that has a name, or is of a network"
	KernelDescriptor    DescriptorKind = "is a file of the kernel's"
	MemoryDescriptor    DescriptorKind = "is memory without a name"
	UnknownDescriptor   DescriptorKind = "is of a kind that is not passed"
)

// UseDescriptors is what a command has a descriptor as.
type UseDescriptors uint8

// The uses of a descriptor.
const (
	InputDescriptor    UseDescriptors = iota // standard input
	OutputDescriptor                         // standard output or error
	FurtherDescriptors                       // any other
)
