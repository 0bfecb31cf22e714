package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// ErrCommand is what is wrong with a request about a command of the session: the error says it.
var ErrCommand = errors.New("command")

// ErrNoCommand is the [ErrCommand] of who names a command that there is not, or not any more: of those that have ended, the newest [CommandsKept] are kept.
var ErrNoCommand = fmt.Errorf("%w: no command", ErrCommand)

// Bounds of the commands of a session.
const (
	// CommandsKept is how many that have ended are listed, and can be followed.
	CommandsKept = 32
	// CommandsAtMost is how many run at once, services among them.
	CommandsAtMost = 256
	// CommandOutput is how much of a command's output is kept, in bytes: the newest, of all streams together.
	CommandOutput = 256 << 10
	// CommandData is how many bytes one [CommandEvent] has at most.
	CommandData = 32 << 10
	// CommandInputs is how many bytes one [CommandInput] has at most.
	CommandInputs = 1 << 20
	// CommandFollowers is how many follow one command at once.
	CommandFollowers = 64
	// CommandPatience is how long a command waits for a reader that it is to wait for ([FollowRequest].Paced, [CommandRequest].Awaited) and that takes nothing.
	CommandPatience = time.Minute
)

// Commander runs commands that the session owns: they go on when the connection ends that has started them, and anybody who may ask the session can list them, follow what they
// write, talk to them and end them. They are numbered in the order in which they were started, and no number is given twice.
//
// A command is a step, or takes part in one, as with [Runner]. One that runs for longer than [CommandRequest].ServiceAfter leaves its step, which ends as if the command had ended: it has
// its entries and can be undone. The command goes on as a service: it holds no step open, what it writes belongs to the step that is open at the time or to an ambient one,
// and [Services] lists it under the name [CommandStatus].Service. It ends with the session's guest (its end, or [Manager.Reset]).
type Commander interface {
	// StartCommand returns when the command runs, or takes its turn with Wait. It fails as [Runner] does if the command cannot begin (messages.ErrBusy, messages.ErrNoMachine,
	// messages.ErrEnding, messages.ErrDenied, a *hypervisor.StartError), and with [ErrCommand] if it cannot be meant. The end of ctx takes back what has not begun; a command that runs is not ended by it.
	StartCommand(ctx context.Context, r CommandRequest) (CommandStatus, error)
	// Commands lists those that run and those that have ended, in the order of their numbers.
	Commands(ctx context.Context) ([]CommandStatus, error)
	// FollowCommand gives emit what the command writes, from r.From on and then as it comes, and its end, which is the last event; then it returns nil. It calls emit from one goroutine, never
	// twice at a time. It returns the error of emit, ctx's, messages.ErrStopped, [ErrNoCommand] at once, or [ErrCommand] with too many followers.
	//
	// Who is slower than the command misses what is not kept any more, and is told how much ([CommandEvent].Missed); the command never waits for that. With Paced it does: see there.
	FollowCommand(ctx context.Context, r FollowRequest, emit func(CommandEvent) error) error
	// InputCommand writes to the command's stdin or its terminal, after what was sent before, and returns when all of it was taken. If ctx ends before, it may be written later all the same.
	// It fails with [ErrCommand] if the command has no input, has ended, has closed it, or does not take what many others have sent before.
	InputCommand(ctx context.Context, r CommandInput) error
	// CloseInput ends the command's stdin, after what was sent before. A terminal has no such end: that is an [ErrCommand]; its end of file is the byte 4.
	CloseInput(ctx context.Context, r CommandNumber) error
	// SignalCommand sends a signal to the command's process group; [ErrCommand] if it has ended.
	SignalCommand(ctx context.Context, r CommandSignal) error
	// ResizeCommand sets the size of the command's terminal; [ErrCommand] if it has none or has ended.
	ResizeCommand(ctx context.Context, r CommandSize) error
	// StopCommand ends the command and what it has started in its session (TERM, KILL after 2 s), and returns when it has ended. One that has ended already is left as it is.
	StopCommand(ctx context.Context, r CommandNumber) (CommandStatus, error)
}

func commandOperations() []Operation {
	return []Operation{
		{Control: "command_start", Traits: Stops | Commands, Call: asks(Commander.StartCommand)},
		{Control: "command_list", Traits: Reads | Large, Call: gets(Commander.Commands)},
		{Control: "command_follow", Traits: Reads | Large | Stops, Call: streams(func(c Commander, ctx context.Context, r FollowRequest, out io.Writer) error {
			events := json.NewEncoder(out) // one a line
			return c.FollowCommand(ctx, r, func(e CommandEvent) error { return events.Encode(e) })
		})},
		{Control: "command_input", Traits: Stops, Call: tells(Commander.InputCommand)},
		{Control: "command_close_input", Traits: Stops, Call: tells(Commander.CloseInput)},
		{Control: "command_signal", Call: tells(Commander.SignalCommand)},
		{Control: "command_resize", Call: tells(Commander.ResizeCommand)},
		{Control: "command_stop", Traits: Stops, Call: asks(Commander.StopCommand)},
	}
}

func (c Remote) StartCommand(ctx context.Context, r CommandRequest) (CommandStatus, error) {
	return ask[CommandStatus](ctx, c, "command_start", r)
}

func (c Remote) Commands(ctx context.Context) ([]CommandStatus, error) {
	return ask[[]CommandStatus](ctx, c, "command_list", None{})
}

func (c Remote) FollowCommand(ctx context.Context, r FollowRequest, emit func(CommandEvent) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, out := io.Pipe()
	told := make(chan error, 1)
	go func() {
		err := readEvents(in, emit)
		_ = in.CloseWithError(err) // whoever writes is told,
		if err != nil {
			cancel() // and whoever waits for more
		}
		told <- err
	}()
	err := c.Wire.Stream(ctx, "command_follow", r, out)
	_ = out.Close() // a pipe's end never fails
	if terr := <-told; terr != nil {
		return terr
	}
	return err
}

// readEvents gives emit each line.
func readEvents(in io.Reader, emit func(CommandEvent) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 4*CommandData)
	for lines.Scan() {
		var e CommandEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("an event of a command: %w", err)
		}
		if err := emit(e); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (c Remote) InputCommand(ctx context.Context, r CommandInput) error {
	return tell(ctx, c, "command_input", r)
}

func (c Remote) CloseInput(ctx context.Context, r CommandNumber) error {
	return tell(ctx, c, "command_close_input", r)
}

func (c Remote) SignalCommand(ctx context.Context, r CommandSignal) error {
	return tell(ctx, c, "command_signal", r)
}

func (c Remote) ResizeCommand(ctx context.Context, r CommandSize) error {
	return tell(ctx, c, "command_resize", r)
}

func (c Remote) StopCommand(ctx context.Context, r CommandNumber) (CommandStatus, error) {
	return ask[CommandStatus](ctx, c, "command_stop", r)
}

// CommandRequest starts a command.
type CommandRequest struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env"`           // as "K=V", all of it
	Dir  string   `json:"dir,omitempty"` // where commands see it, absolute; empty: the first working folder. It need not be in one
	// Tag is the caller's own word for it, at most 128 bytes; it comes back in [CommandStatus].
	Tag string `json:"tag,omitempty"`
	// Stdin says that there will be input ([Commander.InputCommand]). Without it, and without a terminal, stdin is empty.
	Stdin bool `json:"stdin,omitempty"`
	// Terminal asks for a pseudo-terminal, which then is all three streams.
	Terminal *CommandTerminal `json:"terminal,omitempty"`
	// Service has it be a service from the start: it is in no step.
	Service bool `json:"service,omitempty"`
	// ServiceAfter is how long it runs in a step before it becomes a service. 0: as the session has it ([Timing].ServiceAfter); below 0: it never does.
	ServiceAfter time.Duration `json:"service_after_ns,omitempty"`
	// Timeout ends the command, whether it has become a service or not; 0 means none. It begins when the command runs.
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	// Share and Wait are as in [RunRequest].
	Share bool `json:"share,omitempty"`
	Wait  bool `json:"wait,omitempty"`
	// Awaited has the command wait, when more is written than is kept, for the first who follows it with Paced, up to [CommandPatience]: then that one misses nothing.
	Awaited bool `json:"awaited,omitempty"`
	// Origin comes back in the events of the command's step.
	Origin Origin `json:"origin,omitzero"`
}

// CommandTerminal describes a command's terminal. Both sizes are in characters.
type CommandTerminal struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
	Term string `json:"term,omitempty"` // the value of TERM
}

// Validate says what is wrong with a request, whatever the session: an [ErrCommand].
func (r CommandRequest) Validate() error {
	switch {
	case len(r.Argv) == 0 || r.Argv[0] == "":
		return fmt.Errorf("%w: none given; argv is the program and its arguments", ErrCommand)
	case len(r.Tag) > 128:
		return fmt.Errorf("%w: the tag has %d bytes; 128 are the most", ErrCommand, len(r.Tag))
	case r.Timeout < 0:
		return fmt.Errorf("%w: the timeout is below 0; leave it out for none", ErrCommand)
	case r.Terminal != nil && (r.Terminal.Rows == 0 || r.Terminal.Cols == 0):
		return fmt.Errorf("%w: a terminal of 0 rows or columns; say how large it is", ErrCommand)
	}
	return nil
}

// CommandNumber names a command.
type CommandNumber struct {
	Number int64 `json:"number"`
}

// CommandInput is input for a command.
type CommandInput struct {
	Number int64  `json:"number"`
	Data   []byte `json:"data"`
}

// Validate says what is wrong with a request: an [ErrCommand].
func (r CommandInput) Validate() error {
	if len(r.Data) > CommandInputs {
		return fmt.Errorf("%w: %d bytes of input at once; send at most %d, and then more", ErrCommand, len(r.Data), CommandInputs)
	}
	return nil
}

// CommandSignal signals a command.
type CommandSignal struct {
	Number int64 `json:"number"`
	Signal int   `json:"signal"` // 1 to 64, as Linux has them
}

// Validate says what is wrong with a request: an [ErrCommand].
func (r CommandSignal) Validate() error {
	if r.Signal < 1 || r.Signal > 64 {
		return fmt.Errorf("%w: %d is no signal; they are 1 to 64", ErrCommand, r.Signal)
	}
	return nil
}

// CommandSize is a new size of a command's terminal.
type CommandSize struct {
	Number int64  `json:"number"`
	Rows   uint16 `json:"rows"`
	Cols   uint16 `json:"cols"`
}

// Validate says what is wrong with a request: an [ErrCommand].
func (r CommandSize) Validate() error {
	if r.Rows == 0 || r.Cols == 0 {
		return fmt.Errorf("%w: a terminal of 0 rows or columns; say how large it is", ErrCommand)
	}
	return nil
}

// The states of a command.
const (
	CommandRunning = "running" // in a step
	CommandService = "service" // in none
	CommandEnded   = "ended"
)

// CommandStatus describes a command.
type CommandStatus struct {
	Number   int64    `json:"number"`
	Argv     []string `json:"argv"`
	Dir      string   `json:"dir"`
	Tag      string   `json:"tag,omitempty"`
	State    string   `json:"state"`
	Stdin    bool     `json:"stdin,omitempty"`    // it has one, which is open
	Terminal bool     `json:"terminal,omitempty"` // it has one
	PID      int      `json:"pid,omitempty"`      // as programs inside see it; 0: not known
	// Service is its name among the services, once it is one: "command-7".
	Service string `json:"service,omitempty"`
	// Step is the step that it ran in, or runs in; 0: it was a service from the start.
	Step      undolog.StepID `json:"step_id,omitempty"`
	StartedAt time.Time      `json:"started_at"`
	// OutputBytes is how much it has written so far, of all streams: also the [CommandEvent].At of what comes next.
	OutputBytes int64 `json:"output_bytes"`
	// Ended is set when it has ended.
	Ended *CommandEnd `json:"ended,omitempty"`
}

// CommandEnd says how a command ended.
type CommandEnd struct {
	At time.Time `json:"at"`
	// ExitCode is the exit status, or 128+n when signal n ended it; -1 if it is not known: the guest ended before the command.
	ExitCode int           `json:"exit_code"`
	Signal   int           `json:"signal,omitempty"`
	Duration time.Duration `json:"duration_ns"`
	// Outcome is that of [RunResult]: "completed", "cancelled" (by StopCommand, its timeout, or a reset), "denied" or "failed". Reason is for people, and empty when completed.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	// Left is that of [RunResult].
	Left bool `json:"not_rolled_back,omitempty"`
	// Affected is how many paths its step has changed, in all folders. It is 0 if others run on in the step, and if the command has become a service.
	Affected int `json:"affected_count,omitempty"`
	// Refused are the lines of [RunResult].Refused.
	Refused []string `json:"refused,omitempty"`
}

// FollowRequest follows a command.
type FollowRequest struct {
	Number int64 `json:"number"`
	// From is where in the output to begin: 0 is its beginning, or the oldest that is kept (how much is not is the Missed of the first event); below 0: what comes from now on. Who was
	// disconnected goes on at the At of the next event: that of the last one and the length of its data.
	From int64 `json:"from"`
	// Paced has the command wait for this follower, instead of having him miss something, as long as he is the only one and takes something each [CommandPatience].
	Paced bool `json:"paced,omitempty"`
}

// The streams of a [CommandEvent].
const (
	StreamStdout   = "stdout"
	StreamStderr   = "stderr"
	StreamTerminal = "pty"
)

// CommandEvent is something that a command has written, or its end.
type CommandEvent struct {
	// At is how many bytes were written before, to all streams.
	At int64 `json:"at"`
	// Missed is how many bytes before Data are not kept any more and were not given to this follower.
	Missed int64 `json:"missed_bytes,omitempty"`
	// Stream and Data: at most [CommandData] bytes that it has written. They are the workload's, and hostile. Data is the receiver's.
	Stream string `json:"stream,omitempty"`
	Data   []byte `json:"data,omitempty"`
	// Ended is set in the last event, which has no data.
	Ended *CommandEnd `json:"ended,omitempty"`
}
