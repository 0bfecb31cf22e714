package control

import (
	"encoding/json"
	"fmt"
	"os"
)

// GuestProgram is argv[0], and StageShim argv[1], with which a jail's first
// process is executed. A program that contains guest/inner recognises itself by
// them. A command that has limits of its own begins as StageLimits, with the limits (as JSON), the path of its program and its arguments: that
// limits itself and becomes the program. One that says when it is stopped has a StageLead above it, with the descriptor at which it is told what to start. As StagePaths it looks at files for the host (guest/paths).
const (
	GuestProgram = "sandbox-guest"
	StageShim    = "shim"
	StageLimits  = "limits"
	StageLead    = "lead"
	StagePaths   = "paths"
)

// FDControl is the descriptor of the control channel in a jail's first process.
const FDControl = 3

// FDDomain is the descriptor of the Landlock rules for commands in the first process of a
// guest without namespaces.
const FDDomain = 4

// InsideSocket is where programs inside a jail find the socket at which they ask for
// steps of their own.
const InsideSocket = "/run/sandbox/steps.sock"

// Agents are the names of what programs inside may find an agent's socket for, at [AgentSocket].
func Agents() []string { return []string{"ssh", "gpg"} }

// AgentSocket is where programs inside a jail find the socket of an agent outside, if they may use one.
func AgentSocket(name string) string { return "/run/sandbox/" + name + "-agent.sock" }

// GPGHome is the home directory of gpg inside a jail that has an agent for it. Its socket there leads to [AgentSocket].
const GPGHome = "/run/sandbox/gnupg"

// ShimVariable is the variable of the environment in which a jail's first process
// gets its [ShimConfig], as JSON.
const ShimVariable = "SANDBOX_SHIM"

// ShimConfig is what the shim of a jail has to know.
type ShimConfig struct {
	Umask int    `json:"umask"`
	Env   []Text `json:"env"` // of commands that bring none
	// Processes, if it is not 0, is how many processes and threads commands may start. PID 1 may start a
	// few more, so that it goes on.
	Processes int `json:"processes,omitempty"`
	// Confined says that there are no namespaces: the shim is no PID 1, and [FDDomain] is
	// open.
	Confined bool `json:"confined,omitempty"`
	// Agents are the [Agents] for which the shim makes a socket.
	Agents []string `json:"agents,omitempty"`
	// NotifyDir is where the shim leaves rollback notices; empty: its usual place.
	NotifyDir string `json:"notify_dir,omitempty"`
}

// Environ returns the whole environment with which the shim is executed. GORACE of this
// process counts for it, too: a program with the race detector lingers at its end for
// the second that GORACE can shorten.
func (c ShimConfig) Environ() ([]string, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("what the shim has to know: %w", err)
	}
	env := []string{ShimVariable + "=" + string(text), "GOMAXPROCS=1"}
	if race := os.Getenv("GORACE"); race != "" {
		env = append(env, "GORACE="+race)
	}
	return env, nil
}
