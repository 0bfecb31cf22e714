package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
)

// Exit statuses. A command that ran gives its own instead.
const (
	exitFailed  = 1   // anything else
	exitUsage   = 2   // wrong flags or arguments
	exitBarrier = 3   // an undo would overwrite edits from outside
	exitOurs    = 125 // run: the sandbox failed, not the command
)

// app is one invocation of the program.
type app struct {
	stdin, stdout, stderr *os.File
	flags                 globalFlags
	umask                 int // what it was; ours is zero
	// Set before a command's code runs.
	log   *slog.Logger
	conf  fileConfig
	paint painter
}

type globalFlags struct {
	dirs       []string
	undoDir    string
	json       bool
	verbose    bool
	logLevel   string
	configFile string
}

// usageError is a mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitError ends the program with a status; err is printed unless it is nil.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// run is the program: it returns the exit status. The files stay open.
func run(ctx context.Context, args []string, stdin, stdout, stderr *os.File) int {
	// The supervisor allocates little that lives; a small heap with a late
	// collection keeps both its memory and its pauses low.
	debug.SetGCPercent(200)
	debug.SetMemoryLimit(128 << 20)

	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, umask: hostfs.ClearUmask()}
	root := a.rootCommand()
	root.SetArgs(args)
	return a.exitStatus(root.ExecuteContext(ctx))
}

// exitStatus prints the error and turns it into a status.
func (a *app) exitStatus(err error) int {
	if err == nil {
		return 0
	}
	code := exitFailed
	var (
		exit    *exitError
		usage   usageError
		barrier *undolog.BarrierError
		start   *hypervisor.StartError
	)
	switch {
	case errors.As(err, &exit):
		if exit.err == nil {
			return exit.code
		}
		code = exit.code
	case errors.As(err, &usage):
		code = exitUsage
	case errors.As(err, &barrier):
		code = exitBarrier
	case errors.As(err, &start):
		code = start.ExitCode
	}
	fmt.Fprintln(a.stderr, "sandbox: "+err.Error())
	if code == exitUsage {
		fmt.Fprintln(a.stderr, "Try 'sandbox help'.")
	}
	return code
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "sandbox",
		Short: "Run commands isolated on a real folder, and undo what they did",
		Long: "Run commands isolated on a real folder, and undo what they did.\n\n" +
			"  sandbox run -- make install     run a command; every change it makes is kept undoable\n" +
			"  sandbox history                 what was run, and how many paths each changed\n" +
			"  sandbox undo                    put the folder back as it was before the newest step",
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.setUp(cmd) },
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })

	f := root.PersistentFlags()
	f.StringArrayVarP(&a.flags.dirs, "working-dir", "C", nil, "working `folder` (repeatable; append :ro for read-only; default .)")
	f.StringVar(&a.flags.undoDir, "undo-dir", "", "`folder` of the undo log (default: chosen by the working folder)")
	f.BoolVar(&a.flags.json, "json", false, "print data as JSON")
	f.BoolVarP(&a.flags.verbose, "verbose", "v", false, "say more")
	f.StringVar(&a.flags.logLevel, "log-level", "", "`level` of the log on stderr: error, warn, info, debug, trace (default warn)")
	f.StringVar(&a.flags.configFile, "config-file", "", "configuration `file` instead of the organisation's and the user's")

	root.AddCommand(
		a.runCommand(), a.historyCommand(), a.showCommand(), a.diffCommand(),
		a.undoCommand(), a.redoCommand(), a.restoreCommand(),
		a.approveCommand(), a.denyCommand(), a.pendingCommand(),
		a.statusCommand(), a.gcCommand(), a.inspectCommand(), a.psCommand(),
		a.doctorCommand(), a.versionCommand(),
	)
	return root
}

// setUp reads the configuration and makes the logger.
func (a *app) setUp(cmd *cobra.Command) error {
	conf, err := loadConfig(a.flags.configFile)
	if err != nil {
		return a.failure(cmd, err)
	}
	a.conf = conf
	level := a.flags.logLevel
	if level == "" {
		level = conf.LogLevel
	}
	if a.log, err = newLogger(a.stderr, level); err != nil {
		return usageError{err}
	}
	a.paint = newPainter(a.stdout)
	return nil
}

// failure gives err the status of our own failure: 125 in run, 1 elsewhere.
func (a *app) failure(cmd *cobra.Command, err error) error {
	if cmd.Name() == "run" {
		return &exitError{code: exitOurs, err: err}
	}
	return err
}

// exactArgs and its kind turn cobra's complaint into a usage error.
func checkArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}
