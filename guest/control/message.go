package control

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Version of the protocol, exchanged in hello.
const Version = 2

// MaxMessage is the largest line, in bytes without its newline.
const MaxMessage = 1 << 20

// Window is how many bytes of one command may be under way unacknowledged in
// each direction.
const Window = 256 << 10

// MaxData is the largest data field that a side sends, in bytes; base64 and the
// other fields then stay well below MaxMessage.
const MaxData = 32 << 10

// Type names a message.
type Type string

// The messages; see the package's doc for who sends which.
const (
	TypeHello          Type = "hello"
	TypeExec           Type = "exec"
	TypeCancel         Type = "cancel"
	TypeSignal         Type = "signal"
	TypeResize         Type = "resize"
	TypeStdin          Type = "stdin"
	TypeStdinClose     Type = "stdin_close"
	TypeAck            Type = "ack"
	TypeRollbackNotify Type = "rollback_notify"
	TypeClock          Type = "clock"
	TypeShutdown       Type = "shutdown"
	TypeInvalidate     Type = "invalidate"
	TypeSync           Type = "sync"
	TypeDial           Type = "dial"
	TypeWake           Type = "wake"
	TypeDone           Type = "done"
	TypeStepStarted    Type = "step_started"
	TypeStartFailed    Type = "start_failed"
	TypeOutput         Type = "output"
	TypeStepCompleted  Type = "step_completed"
	TypeStopped        Type = "stopped"
	TypeInside         Type = "inside"
	TypeError          Type = "error"
)

// The streams of output messages.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Text is a string that need not be UTF-8: it is a JSON string where it can be
// and {"base64": "..."} where not, because names and output are bytes.
type Text string

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(t))})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(p []byte) error {
	if len(p) > 0 && p[0] == '{' {
		var o struct {
			Base64 []byte `json:"base64"`
		}
		if err := json.Unmarshal(p, &o); err != nil {
			return err
		}
		*t = Text(o.Base64)
		return nil
	}
	return json.Unmarshal(p, (*string)(t))
}

// TTY asks for a terminal.
type TTY struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
	// Of has bit i if stream i (stdin, stdout, stderr) is the terminal, where descriptors are passed: the others come with the message. 0 is all.
	// Such a terminal leaves to the other end what is done with line ends.
	Of uint8 `json:"of,omitempty"`
	// Stops asks for stopped messages. Without, nobody would continue a command that its terminal stops, so that it does not.
	Stops bool `json:"stops,omitempty"`
}

// Partial reports whether descriptors come for some of the streams.
func (t *TTY) Partial() bool { return t != nil && t.Of != 0 }

// Limits are what a process may use of the machine.
type Limits struct {
	// Nice is how nice the process is, if that is more than 0.
	Nice int     `json:"nice,omitempty"`
	List []Limit `json:"list,omitempty"`
}

// Limit is one limit, as of setrlimit.
type Limit struct {
	Resource   int
	Soft, Hard uint64
}

// Message is any message; the fields that its Type does not use are empty.
type Message struct {
	Type Type `json:"type"`
	// ID names the command in every message about one. It is never 0.
	ID int64 `json:"id,omitempty"`

	// exec: Argv, or Command for "sh -c". Env entries are "K=V". Stdin says
	// that stdin messages will follow. FDs descriptors come with the message.
	// EnvAgain: Env is that of the last exec that brought one.
	Command  Text   `json:"command,omitempty"`
	Argv     []Text `json:"argv,omitempty"`
	Env      []Text `json:"env,omitempty"`
	EnvAgain bool   `json:"env_again,omitempty"`
	Cwd      Text   `json:"cwd,omitempty"`
	TTY      *TTY   `json:"tty,omitempty"`
	// Limits of the command's process; without, it has those of the guest's first process.
	Limits *Limits `json:"limits,omitempty"`
	Stdin  bool    `json:"stdin,omitempty"`
	FDs    int     `json:"fds,omitempty"`
	// Own: in place of a program, Argv are arguments of the guest's own, which serves them as a command ([StagePaths]).
	Own bool `json:"own,omitempty"`
	// Further are the numbers, in the command, of the last of these descriptors: those beyond the standard three. Ignored are the signals
	// that the command starts with ignored.
	Further []int `json:"further,omitempty"`
	Ignored []int `json:"ignored,omitempty"`

	// inside: what the listener is for; empty: steps.
	Agent string `json:"agent,omitempty"`

	// cancel: milliseconds between TERM and KILL.
	GraceMS int64 `json:"grace_ms,omitempty"`
	// signal, and the signal that ended a command in step_completed, or stopped one in stopped.
	Signal int `json:"signal,omitempty"`
	// resize
	Rows uint16 `json:"rows,omitempty"`
	Cols uint16 `json:"cols,omitempty"`
	// output and stdin
	Stream string `json:"stream,omitempty"`
	Data   Text   `json:"data,omitempty"`
	// ack: bytes taken by the receiver of data.
	Bytes int `json:"bytes,omitempty"`
	// rollback_notify
	StepID int64 `json:"step_id,omitempty"`
	// clock: nanoseconds since 1970, by the host's clock. wake: the modification time that files (Argv, below Cwd) are
	// set to, which their bridge knows
	TimeNS int64 `json:"time_ns,omitempty"`
	// invalidate, sync, dial, wake and their done: a number of the host's. It is never 0.
	Request int64 `json:"request,omitempty"`
	// dial: a TCP port of the guest's loopback. Its done brings the descriptor. exec: in place
	// of a command, a connection to such a port. What comes on it is output of stdout, an empty one
	// is its end; stdin is what is sent on it.
	Port uint16 `json:"port,omitempty"`

	// step_started: the number of the command's first process, as the guest numbers it.
	PID int `json:"pid,omitempty"`
	// step_completed and start_failed
	ExitCode   *int  `json:"exit_code,omitempty"`
	DurationNS int64 `json:"duration_ns,omitempty"`
	// step_completed: no other process is left in the guest.
	Alone bool `json:"alone,omitempty"`
	// start_failed and error, and done where it failed
	Error string `json:"error,omitempty"`

	// hello
	Version  int      `json:"version,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// Errors of the protocol. None of them breaks the channel.
var (
	ErrTooLarge  = errors.New("control: message exceeds 1 MiB")
	ErrMalformed = errors.New("control: malformed message")
	ErrUnknown   = errors.New("control: unknown message type")
	ErrSequence  = errors.New("control: message out of sequence")
)

// Parse decodes one line. The error wraps ErrTooLarge, ErrMalformed or
// ErrUnknown. What it returns has the fields that its type needs.
func Parse(line []byte) (*Message, error) {
	if len(line) > MaxMessage {
		return nil, ErrTooLarge
	}
	m, ok := scan(line)
	if !ok {
		m = new(Message)
		if err := json.Unmarshal(line, m); err != nil {
			return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
		}
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Message) check() error {
	needID := true
	bad := ""
	switch m.Type {
	case TypeHello:
		needID = false
		if m.Version <= 0 {
			bad = "no version"
		}
	case TypeShutdown, TypeError, TypeRollbackNotify:
		needID = false
	case TypeInside:
		needID = false
		if m.FDs != 1 {
			bad = "not one descriptor"
		}
		if m.Agent != "" && !slices.Contains(Agents(), m.Agent) {
			bad = "no such agent"
		}
	case TypeClock:
		needID = false
		if m.TimeNS <= 0 {
			bad = "no time"
		}
	case TypeWake:
		needID = false
		if m.Request == 0 || m.TimeNS <= 0 {
			bad = "no request or no time"
		}
	case TypeInvalidate, TypeSync, TypeDone:
		needID = false
		if m.Request == 0 {
			bad = "no request"
		}
	case TypeDial:
		needID = false
		if m.Request == 0 || m.Port == 0 {
			bad = "no request, or no port"
		}
	case TypeExec:
		bad = m.checkExec()
	case TypeOutput:
		if m.Stream != Stdout && m.Stream != Stderr {
			bad = "stream is neither stdout nor stderr"
		}
	case TypeStepCompleted, TypeStartFailed:
		if m.ExitCode == nil || *m.ExitCode < 0 || *m.ExitCode > 255 {
			bad = "no exit_code from 0 to 255"
		}
		if m.Signal < 0 || m.Signal > 127 {
			bad = "impossible signal"
		}
	case TypeSignal, TypeStopped:
		if m.Signal <= 0 || m.Signal > 64 {
			bad = "no signal from 1 to 64"
		}
	case TypeAck:
		if m.Bytes <= 0 || m.Bytes > Window {
			bad = "impossible number of bytes"
		}
	case TypeCancel:
		if m.GraceMS < 0 {
			bad = "negative grace_ms"
		}
	case TypeStdin, TypeStdinClose, TypeResize, TypeStepStarted:
	default:
		return fmt.Errorf("%w %.40q", ErrUnknown, string(m.Type))
	}
	if bad == "" && needID && m.ID == 0 {
		bad = "no id"
	}
	if bad == "" && (m.FDs < 0 || m.FDs > maxFDs) {
		bad = "impossible number of descriptors"
	}
	if bad != "" {
		return fmt.Errorf("%w: %s: %s", ErrMalformed, m.Type, bad)
	}
	return nil
}

// checkExec says what is wrong with a request to start a command.
func (m *Message) checkExec() string {
	if m.Command == "" && len(m.Argv) == 0 && m.Port == 0 {
		return "neither command nor argv nor port"
	}
	if len(m.Further) > m.FDs {
		return "more numbers of descriptors than descriptors"
	}
	for i, n := range m.Further {
		if n < firstFurther || n > lastFurther || slices.Contains(m.Further[:i], n) {
			return "impossible numbers of descriptors"
		}
	}
	for _, s := range m.Ignored {
		if s < 1 || s > 64 {
			return "ignores what is no signal"
		}
	}
	return ""
}
