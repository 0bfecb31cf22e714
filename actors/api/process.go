package api

import (
	"strconv"
	"time"
)

// Running is a process inside. It chooses its name and its command line itself; both are printable and bounded.
type Running struct {
	PID         int    `json:"pid"`              // as it is numbered inside
	Parent      int    `json:"parent,omitempty"` // inside; missing: what starts the commands
	HostPID     int    `json:"host_pid"`
	Name        string `json:"name"`
	CommandLine string `json:"command_line,omitempty"`
	// State is the kernel's letter: R runs, S and D wait, T is stopped, Z has ended and is not collected.
	State     string        `json:"state"`
	CPU       time.Duration `json:"cpu_ns"`
	StartedAt time.Time     `json:"started_at"`
}

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
