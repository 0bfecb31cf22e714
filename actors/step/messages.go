package step

import (
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// Attach tells how to end the lease's command. Cancel is called at most once, on its
// own goroutine.
type Attach struct {
	Lease  *Lease
	Cancel func()
}

// Finish says that the lease's command, or write, has ended.
type Finish struct {
	Lease  *Lease
	Result undolog.StepResult
	// Failed, if not empty, says why the step must be rolled back.
	Failed string
	// Quiet: no process is left that could write. Prompt: there was none; what
	// others write just now is not waited for. Of several commands, the word of the
	// last one counts.
	Quiet, Prompt bool
	Reply         *messages.Reply[Finished]
}

// Finished says what became of a step.
type Finished struct {
	Outcome string
	Reason  string
	// Left says that the step failed and could not be rolled back.
	Left    bool
	Entries []Entry
	// Others is how many commands of the step run on, so that the step is still open:
	// what it leaves is not known yet.
	Others int
}

// Entry is what the step left in one directory.
type Entry struct {
	Directory string
	Entry     *undolog.Entry
}

// Fail answers whoever waits.
func (m *Finish) Fail(err error) { m.Reply.Fail(err) }

// What the goroutines that ask the directories tell the actor.

type reserved struct {
	lease *Lease
	id    undolog.StepID
}

type assigned struct {
	id  undolog.StepID
	err error
}

type closed struct {
	id    undolog.StepID
	dir   string
	entry *undolog.Entry
	err   error
}

type aborted struct {
	id  undolog.StepID
	dir string
	err error
}
