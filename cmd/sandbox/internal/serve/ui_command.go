package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/frontend/ui"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
)

// PageCommands make 'sandbox ui'.
type PageCommands struct {
	// Out is where the address goes, Stderr is for people.
	Out    *console.Output
	Stderr io.Writer
	// JSON reports whether data is printed as JSON.
	JSON func() bool
	// Launch finds sessions and logs, and Logger logs. They are asked for when the command runs.
	Launch  func() *launch.Launcher
	Logger  func() *slog.Logger
	Version string
}

// Command is the command.
func (c PageCommands) Command() *cobra.Command {
	port, noOpen := 0, false
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show sessions, histories and decisions in the browser",
		Long: "Serve a page for this machine's browser, and open it: live sessions, each folder's history with its diffs, what waits\n" +
			"for a decision, the actors. It can undo, redo and decide. Whoever has the printed address can do that, too: keep\n" +
			"it to yourself. The page is served until the command is interrupted.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return console.Usagef("unexpected argument %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context(), port, !noOpen) },
	}
	cmd.Flags().IntVar(&port, "port", 0, "the port of 127.0.0.1 to serve at; 0: a free one")
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "only print the address")
	return cmd
}

func (c PageCommands) run(ctx context.Context, port int, open bool) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal does not wait for what changes something
	l, err := listen(port, "--port")
	if err != nil {
		return err
	}
	s := ui.New(ui.Options{Sources: sources{c.Launch()}, Version: c.Version, User: username(), Logger: c.Logger()})
	address := s.Address(l)
	if c.JSON() {
		err = c.Out.JSON(map[string]string{"url": address})
	} else {
		_, err = fmt.Fprintln(c.Out, address)
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if open {
		if err := show(ctx, address); err != nil {
			fmt.Fprintln(c.Stderr, "No browser was opened ("+err.Error()+"): open the address yourself.")
		}
	}
	defer c.Launch().Attend()()
	return s.Serve(ctx, l)
}

// errNoDesktop is why no browser is opened.
var errNoDesktop = errors.New("there is no desktop here")

// show opens an address in the user's browser. The token must not stand on a command line that other
// users can read, but browsers take it in no other way: it is there for a moment.
func show(ctx context.Context, address string) error {
	line, err := opener(runtime.GOOS, os.Getenv, address)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

// opener is the command that opens an address: on macOS and Windows the system's own, wherever PATH leads. No shell reads it.
func opener(system string, getenv func(string) string, address string) (line []string, err error) {
	switch system {
	case "darwin":
		return []string{"/usr/bin/open", address}, nil
	case "windows":
		root := getenv("SystemRoot")
		if root == "" {
			return nil, errNoDesktop
		}
		return []string{root + `\System32\rundll32.exe`, "url.dll,FileProtocolHandler", address}, nil
	}
	if getenv("DISPLAY") == "" && getenv("WAYLAND_DISPLAY") == "" {
		return nil, errNoDesktop
	}
	return []string{"xdg-open", address}, nil
}
