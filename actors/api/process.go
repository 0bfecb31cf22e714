package api

import "strconv"

// Process is a program inside that asked for something, as it was when it asked. It chooses its
// name and its command line itself; all texts are printable and bounded.
type Process struct {
	PID  int    `json:"pid"`  // as the host numbers it
	Name string `json:"name"` // of the process, which may be any
	// Program is the file that it executes; empty if that could not be found out.
	Program     string `json:"program,omitempty"`
	CommandLine string `json:"command_line,omitempty"`
	// Inside is its number inside, if it is the guest's first process or a child of that; else 0.
	Inside int `json:"-"`
}

// String is the process on one line.
func (p Process) String() string {
	s := p.Name + " (" + strconv.Itoa(p.PID) + ")"
	if p.CommandLine != "" {
		s += ": " + p.CommandLine
	}
	if p.Program != "" {
		s += " [" + p.Program + "]"
	}
	return s
}
