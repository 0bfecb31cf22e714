package directory

import (
	"time"

	"github.com/codeagent/sandbox/actors/interceptor"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// Step is the folder as the steps actor sees it: a step.Directory.
type Step struct{ *Directory }

// Path implements step.Directory: the folder.
func (d Step) Path() string { return d.Config.Path }

// NextID implements step.Directory: the next free id of the log.
func (d Step) NextID() undolog.StepID { return d.Log.NextID(undolog.TypeCommand) }

// InFlight implements step.Directory: the number of unfinished requests.
func (d Step) InFlight() int { return d.Hooks.InFlight() }

// Holding implements step.Directory: whether mutations wait.
func (d Step) Holding() bool { return d.Hooks.Holding() }

// LastMutation implements step.Directory: when the newest began.
func (d Step) LastMutation() time.Time {
	return d.Hooks.LastMutation()
}

// Together tells whether two folders belong together: whoever undoes a step in one means both.
func Together(a, b *Directory) bool {
	return a != b && a.Config.Repository != "" && a.Config.Repository == b.Config.Repository
}

// Assign implements step.Directory: gives the folder its step.
func (d Step) Assign(id undolog.StepID, info undolog.StepInfo, done func(error)) {
	info.Folders = nil
	for _, o := range d.env.Config.Directories {
		if o.Repository != "" && o.Repository == d.Config.Repository && o.Path != d.Config.Path {
			info.Folders = append(info.Folders, o.Path)
		}
	}
	d.env.Interceptor.Tell(&interceptor.Assign{ID: id, Info: info, Reply: messages.OnReply(func(_ struct{}, err error) {
		if d.givenUp(err) { // other folders' commands are not stopped by this
			err = nil
		}
		done(err)
	})})
}

// Close implements step.Directory: ends the step and keeps it.
func (d Step) Close(id undolog.StepID, r undolog.StepResult, done func(*undolog.Entry, error)) {
	d.env.Interceptor.Tell(&interceptor.Close{ID: id, Result: r, Reply: messages.OnReply(func(e *undolog.Entry, err error) {
		if open, ok := d.Log.Current(); d.givenUp(err) && (!ok || open != id) { // it changed nothing here
			err = nil
		}
		done(e, d.lost(err))
	})})
}

// Failing implements step.Directory: makes it fail.
func (d Step) Failing(id undolog.StepID) { d.env.Interceptor.Tell(&interceptor.Failing{ID: id}) }

// Abort implements step.Directory: rolls it back.
func (d Step) Abort(id undolog.StepID, done func(error)) {
	d.env.Interceptor.Tell(&interceptor.Abort{ID: id, Reply: messages.OnReply(func(_ *undolog.ApplyResult, err error) { done(err) })})
}
