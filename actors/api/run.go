package api

import (
	"context"
	"os"
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
)

// RunRequest runs one command.
type RunRequest struct {
	Argv []string
	Env  []string
	Dir  string // host path; empty means the first working folder
	// Stdin, Stdout, Stderr, Further, Ignored, TTY and Limits as in [hypervisor.Command].
	Stdin, Stdout, Stderr *os.File
	Further               []hypervisor.Descriptor
	Ignored               []int
	TTY                   *hypervisor.TTY
	Limits                *hypervisor.ProcessLimits
	// Asks says that whoever wants the command shows its user what is asked, as long as it runs: see [Config.Attended].
	Asks bool
	// Started is called once the command runs; it may be nil. It gets the
	// process, to signal, resize and talk to its terminal.
	Started func(undolog.StepID, hypervisor.Process)
	// Timeout cancels the command; 0 means none. It begins when the command
	// runs.
	Timeout time.Duration
	// Question, if it is not empty, is put to a person before the command starts,
	// as a safeguard's is: unless it is allowed in time, the outcome is "denied",
	// nothing was run and there is no step.
	Question string
	// Origin comes back in the events of the command's step.
	Origin Origin
	// Wait lets the request wait in the session's queue, first come first served,
	// while another command runs; without it that is ErrBusy. The queue is
	// bounded: ErrBusy when it is full.
	Wait bool
	// Share lets the command run at the same time as others, in their step. Then it
	// waits for none of them; only if as many run as may ([Config.Commands]), it does
	// so, or gets ErrBusy without Wait. Without Share the command has a step of its own
	// when it begins; others may share it.
	Share bool
	// Queued is told that the command waits because no more may run. It may be nil.
	Queued func(Waits)
	// Stays is told that the command, which is the Last, has ended while others run on
	// in its step: Run returns when they have ended, too, or ctx does. It may be nil.
	Stays func(RunResult)
	// Last: the session ends with this command. Commands that wait in the queue at
	// its end, and all that come later, get messages.ErrEnding.
	Last bool
}

// RunResult says how a command ended.
type RunResult struct {
	Step   undolog.StepID
	Status hypervisor.ExitStatus
	// Outcome is "completed", "cancelled", "denied" or "failed". After "denied"
	// and "failed" the step has been rolled back, unless Left says that this failed, too.
	Outcome string
	Reason  string // for people; empty when completed
	Left    bool
	// Refused says, if the command has failed, what the walls have refused while it ran, and what would allow it: a line for
	// each cause.
	Refused []string
	// Warnings are what the session has warned of in the command's step, for who hears no events: the newest, a line each.
	Warnings []string
	// Entries are the closed steps, one for each directory that changed.
	Entries []RunEntry
	// Others is how many other commands run on in the step. Then it is still open, and
	// has no entries yet.
	Others int
}

// RunEntry is what the command's step left in one directory.
type RunEntry struct {
	Directory string        `json:"directory"`
	Entry     undolog.Entry `json:"entry"`
}

// Runner runs commands.
type Runner interface {
	// Run runs one command, as one step or in the step of others. Unless the request
	// may wait it returns ErrBusy while it cannot begin. It returns ErrNoMachine without a
	// runtime, and a *hypervisor.StartError when the command could not be
	// started. When ctx ends or the timeout passes the command is cancelled; what
	// it did is kept.
	Run(ctx context.Context, r RunRequest) (RunResult, error)
}

// OutputKeeper keeps what the commands of steps wrote, in the history.
type OutputKeeper interface {
	// KeepOutput is called when a command has ended and all that it wrote has been read. Nothing is kept if the session
	// is not to ([Config.KeepOutput]), or if the step is in no folder's history. What cannot be kept is logged: it is
	// no reason for a command to fail.
	KeepOutput(step undolog.StepID, o undolog.CommandOutput)
}
