package control

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/inherit"
	"github.com/codeagent/sandbox/messages"
)

// runParams are those of "run". Without a terminal its stdin, stdout and stderr
// come with it as descriptors, unless they are relayed; after them those that Further numbers.
type runParams struct {
	Argv     []string  `json:"argv"`
	Env      []string  `json:"env"`
	Dir      string    `json:"dir"`
	Terminal *terminal `json:"terminal,omitempty"`
	// Relayed says that no files come: the streams go by "run_output" and "run_input". A terminal is all of them then.
	Relayed bool          `json:"relayed,omitempty"`
	Further []int         `json:"further,omitempty"`
	Ignored []int         `json:"ignored,omitempty"`
	Asks    bool          `json:"asks,omitempty"`
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	Wants   api.Wants     `json:"wants"`
}

type terminal struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
	Term string `json:"term,omitempty"`
	// Of as in [hypervisor.TTY]: with it the other streams come as descriptors, too.
	Of *[3]bool `json:"of,omitempty"`
	// Stops says that the client wants to hear when the command is stopped, and continues it.
	Stops bool `json:"stops,omitempty"`
}

// files are how many of the command's streams come as descriptors.
func (p runParams) files() int {
	if !p.Relayed && (p.Terminal == nil || p.Terminal.Of != nil) {
		return 3
	}
	return 0
}

// further are a command's descriptors beyond the standard three, of those that came.
func (p runParams) further(files []*os.File) (list []hypervisor.Descriptor) {
	for i, n := range p.Further {
		list = append(list, hypervisor.Descriptor{Number: n, File: files[p.files()+i]})
	}
	return list
}

// numbered is what is wrong with the numbers of the descriptors and the signals; empty if nothing is.
func (p runParams) numbered() string {
	if len(p.Further) > inherit.MostDescriptors {
		return fmt.Sprintf("more than %d descriptors beyond the standard three", inherit.MostDescriptors)
	}
	for i, n := range p.Further {
		if n < 3 || n > inherit.HighestDescriptor || slices.Contains(p.Further[:i], n) {
			return fmt.Sprintf("a descriptor cannot be number %d", n)
		}
	}
	for _, n := range p.Ignored {
		if !inherit.IgnorableSignal(n) {
			return fmt.Sprintf("signal %d cannot be ignored from the start", n)
		}
	}
	return ""
}

// runPart is a part of the answer to "run": one field is set.
type runPart struct {
	// Accepted comes first. A client that has not heard it may be sure that nothing
	// was run.
	Accepted bool         `json:"accepted,omitempty"`
	Waits    *api.Waits   `json:"waits,omitempty"`
	Started  *startedPart `json:"started,omitempty"`
	// Stopped is the signal that has stopped the command.
	Stopped int        `json:"stopped,omitempty"`
	Event   *api.Event `json:"event,omitempty"`
}

// startedPart says that the command runs. With a terminal, a descriptor of the
// other end comes with it.
type startedPart struct {
	Step undolog.StepID `json:"step_id"`
	// Command is the command's number in the session: several may run in a step.
	Command uint64 `json:"command_id"`
}

// runResult is how a command ended.
type runResult struct {
	Step     undolog.StepID `json:"step_id"`
	ExitCode int            `json:"exit_code"`
	Signal   int            `json:"signal,omitempty"`
	Duration time.Duration  `json:"duration_ns"`
	Outcome  string         `json:"outcome"`
	// Only comes where there is nothing else to tell than what it says. cmd/sandbox/internal/shortcut reads as far as this.
	Only    *onlyChange    `json:"only,omitempty"`
	Reason  string         `json:"reason,omitempty"`
	Left    bool           `json:"not_rolled_back,omitempty"`
	Limit   string         `json:"limit,omitempty"`
	Refused []string       `json:"refused,omitempty"`
	Warned  []string       `json:"warnings,omitempty"`
	Entries []api.RunEntry `json:"entries,omitempty"`
	// Others is how many commands run on in the step, which is still open.
	Others int `json:"others_running,omitempty"`
}

// onlyChange is a completed step that changed something in one folder, by more than a look, and can be undone.
type onlyChange struct {
	Step      undolog.StepID `json:"step_id"`
	Affected  int            `json:"affected_count"`
	Directory string         `json:"directory"`
}

// only returns what [runResult.Only] says of a result, or nil.
func (r runResult) only() *onlyChange {
	if r.Outcome != messages.OutcomeCompleted || r.Reason != "" || r.Limit != "" || len(r.Refused)+len(r.Warned) > 0 || r.Others > 0 || len(r.Entries) != 1 {
		return nil
	}
	e := r.Entries[0]
	if e.Entry.Unprotected || e.Entry.AffectedCount == 0 || e.Entry.LooksOnly || e.Entry.StepID < 0 {
		return nil
	}
	return &onlyChange{e.Entry.StepID, e.Entry.AffectedCount, e.Directory}
}
