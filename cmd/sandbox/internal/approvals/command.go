package approvals

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
)

// Commands make 'sandbox approvals'.
type Commands struct {
	Stdin, Stdout *os.File
	// JSON reports whether data was to be printed as JSON.
	JSON func() bool
	// Launch finds the sessions. It is asked for when the command runs.
	Launch func() *launch.Launcher
}

// Command is the command.
func (c Commands) Command() *cobra.Command {
	return &cobra.Command{
		Use:   "approvals",
		Short: "Decide what waits, in a terminal of its own",
		Long: "Show what waits for a decision as it comes, on the whole terminal, and decide it: beside an agent that has a terminal\n" +
			"to itself. The keys are shown at the bottom. The history shows what was decided, and takes answers back.\n" +
			"Without --working-dir it is about all running sessions of this user, and about those that begin later.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return console.Usagef("unexpected argument %q; 'sandbox approve ID' decides without a terminal", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
}

func (c Commands) run(ctx context.Context) error {
	if c.JSON() {
		return console.Usagef("it prints nothing; 'sandbox pending --json' lists what waits")
	}
	if !term.IsTerminal(int(c.Stdin.Fd())) || !term.IsTerminal(int(c.Stdout.Fd())) {
		return errors.New("approvals needs a terminal; 'sandbox pending' lists what waits, 'sandbox approve ID' and 'sandbox deny ID' decide it")
	}
	wanted, err := c.Launch().Named()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	f := &feed{every: lookEvery, open: map[string]Session{}, source: Source{
		Sessions: func() ([]api.SessionInfo, error) {
			list, err := c.Launch().Sessions()
			return slices.DeleteFunc(list, func(s api.SessionInfo) bool { return !wanted(s.Directories) }), err
		},
		Dial: dial,
	}}
	defer c.Launch().Attend()()
	return show(ctx, f, c.Stdin, c.Stdout)
}

func dial(ctx context.Context, info api.SessionInfo) (Session, error) {
	s, err := actors.Dial(ctx, info.Socket)
	if err != nil {
		return nil, err
	}
	if session, ok := s.(Session); ok {
		return session, nil
	}
	return nil, errors.Join(fmt.Errorf("%T tells of no events", s), s.Close(ctx))
}

// show runs until a person leaves. The terminal is then as it was.
func show(ctx context.Context, f *feed, in, out *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(actions{
		decide: func(session string, r api.DecideRequest, done string) tea.Cmd {
			return func() tea.Msg { return f.decide(ctx, session, r, done) }
		},
		takeBack: func(session string, r api.TakeBackRequest, done string) tea.Cmd {
			return func() tea.Msg { return f.takeBack(ctx, session, r, done) }
		},
	}, time.Now)
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out))
	f.send = p.Send
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		f.follow(ctx)
	}()
	_, err := p.Run()
	cancel()
	<-followed
	if errors.Is(err, tea.ErrInterrupted) || errors.Is(err, tea.ErrProgramKilled) && !errors.Is(err, tea.ErrProgramPanic) {
		return nil
	}
	return err
}
