package api

import (
	"context"
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Joined is a session of another process, in which this process has commands run.
// Methods are safe for concurrent use.
type Joined interface {
	Service
	Services
	// Join runs a command in the session, as [Runner] does. A command that may not
	// start yet waits in the session's queue. The error wraps [ErrNotGiven] if the
	// session does not have what the request asks for, and messages.ErrEnding if the
	// session ends and has not begun to run the command: then somebody may start
	// another session.
	Join(ctx context.Context, r JoinRequest) (RunResult, error)
	// Offers returns an error that wraps [ErrNotGiven] if the session does not have what
	// is asked for.
	Offers(ctx context.Context, w Wants) error
	// Stop ends the session: commands are cancelled, their steps are closed. It
	// returns when the session's process has ended.
	Stop(ctx context.Context) error
	// PID is the process that has the session.
	PID() int
}

// JoinRequest is a command for a session of another process.
type JoinRequest struct {
	// Run is the command. Its files and its terminal are this process's own. Wait and
	// Share are implied; Question and Last are ignored.
	Run   RunRequest
	Wants Wants
	// Waits is told that the command waits because no more may run. It may be nil.
	Waits func(Waits)
	// Event is told of what happens in the command's step, and of what the session has
	// to say meanwhile. It may be nil.
	Event func(Event)
}

// Wants is what somebody asks a session to have that was started before.
type Wants struct {
	Settings []Setting `json:"settings,omitempty"`
	// Directories are working folders that were named; none means that any will do.
	Directories []Directory `json:"directories,omitempty"`
	// Keep, if it is not 0, is the shortest idle time that the session shall have.
	Keep time.Duration `json:"keep_ns,omitempty"`
}

// Waits says what runs while a command waits.
type Waits struct {
	Step    undolog.StepID `json:"step_id"`
	Command string         `json:"command"` // that began the step
	// Commands is how many run.
	Commands int `json:"commands,omitempty"`
}

// Setting is a setting that a session was started with, or that somebody asks it
// to have.
type Setting struct {
	// Flag is the name of its flag, without dashes.
	Flag string `json:"flag"`
	// Values has one value, or those of a list; nil of a session whose isolation has nothing of that kind.
	Values []string `json:"values"`
	// List: the session has more values than are asked for, and that is enough.
	List bool `json:"list,omitempty"`
}
