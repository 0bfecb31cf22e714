package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/approvals"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/manual"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/memory"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/serve"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/shortcut"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
)

// app is one invocation of the program.
type app struct {
	stdin, stdout, stderr *os.File
	out                   *console.Output // into stdout: what a command of ours prints
	flags                 globalFlags
	keyFlags              config.FlagValues   // those that set a key of the configuration
	sessionFlags          []string            // of them, those of a session that is started
	places                config.Sources      // of configuration files
	umask                 int                 // what it was; ours is zero
	asked                 *shortcut.Run       // what was begun before main, if anything was
	ahead                 *launch.Preparation // of a session that will be started; nil: that is not known
	// Set before a command's code runs.
	log    *slog.Logger
	conf   *config.Set
	base   *config.Set // without the project's file and most flags
	launch *launch.Launcher
	paint  console.Painter
	// serving: stderr is the log's alone.
	serving bool
	// runs: the command line is one of 'sandbox run'.
	runs bool
}

type globalFlags struct {
	dirs       []string
	json       bool
	verbose    bool
	configFile string
}

// execute is the program. It returns the exit status, and the signal that ended the command, if there was
// one, or 0. The files stay open.
func execute(ctx context.Context, args []string, stdin, stdout, stderr *os.File) (code, signal int) {
	// The supervisor allocates little that lives; a small heap with a late
	// collection keeps both its memory and its pauses low. The limit leaves out the
	// program's own file, of which about 25 MiB are resident: 150 MB are for both. A step with
	// very many files needs more at once.
	debug.SetGCPercent(200)
	memory.Limit(110 << 20)
	defer console.UseEscapes(stdout, stderr)()

	a := &app{out: console.NewOutput(stdout), stdin: stdin, stdout: stdout, stderr: stderr, umask: hostfs.ClearUmask(), places: config.Places(), asked: shortcut.Taken()}
	if shortcut.Alone() {
		a.ahead = launch.Prepare()
	}
	a.runs = len(args) > 0 && args[0] == "run"
	root := a.rootCommand()
	root.SetArgs(negativeSteps(root, args))
	cmd, err := root.ExecuteContextC(ctx)
	if status := (*console.Error)(nil); errors.As(err, &status) {
		signal = status.Signal
	}
	return a.exitStatus(cmd, err), signal
}

// exitStatus prints a command's error and turns it into a status.
func (a *app) exitStatus(cmd *cobra.Command, err error) int {
	if err == nil && a.out.Err() != nil {
		err = fmt.Errorf("the output is not complete: %w", a.out.Err())
	}
	if err == nil {
		return 0
	}
	code := exitCode(err)
	if silent(err) {
		return code
	}
	a.remark("sandbox: " + err.Error())
	if console.IsUsage(err) && !a.serving {
		fmt.Fprintf(a.stderr, "Try 'sandbox help%s'.\n", strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()))
	}
	return code
}

// exitCode is the exit status that an error means.
func exitCode(err error) int {
	var (
		status  *console.Error
		barrier *undolog.BarrierError
		start   *hypervisor.StartError
	)
	switch {
	case errors.As(err, &status):
		return status.Code
	case console.IsUsage(err):
		return console.Misuse
	case errors.As(err, &barrier), errors.Is(err, undolog.ErrElsewhere):
		return console.Barrier
	case errors.As(err, &start):
		return start.ExitCode
	}
	return console.Failed
}

// remark tells the user something: on stderr, or in the log of a server.
func (a *app) remark(text string) {
	if a.serving {
		a.log.Warn(strings.TrimPrefix(text, "sandbox: "), "component", "session")
		return
	}
	if term.IsTerminal(int(a.stderr.Fd())) {
		text = console.Tame(text, false)
	}
	fmt.Fprintln(a.stderr, text)
}

// once makes a remark that says each thing once.
func (a *app) once() func(text string) {
	var mu sync.Mutex
	told := map[string]bool{}
	return func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if !told[text] {
			told[text] = true
			a.remark(text)
		}
	}
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
		Args:              checkArgs(cobra.NoArgs),
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.Version = thisVersion().String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(a.stdin)
	root.SetOut(a.out)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return console.Usage(flagError(cmd, err)) })

	f := root.PersistentFlags()
	f.StringArrayVarP(&a.flags.dirs, "working-dir", "C", nil, "working `folder`, [LABEL=]PATH[:ro], or a label (repeatable; default .)")
	f.BoolVar(&a.flags.json, "json", false, "print data as JSON")
	f.BoolVarP(&a.flags.verbose, "verbose", "v", false, "say more")
	f.StringVar(&a.flags.configFile, "config-file", "", "configuration `file` instead of the user's and the project's")
	a.keyFlags, a.sessionFlags = config.FlagValues{}, nil
	for _, v := range config.Flags() {
		a.keyFlags[v.Name()] = v
		if !slices.Contains(programFlags, v.Name()) && !slices.Contains(serveFlags, v.Name()) {
			a.sessionFlags = append(a.sessionFlags, v.Name())
		}
	}
	a.addKeyFlags(root, programFlags...)

	root.AddCommand(a.commands()...)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	finish(root)
	checkHelp(root)
	group(root)
	// They fail only for a flag that is not there.
	_ = root.MarkPersistentFlagDirname("working-dir")
	_ = root.MarkPersistentFlagFilename("config-file", "toml")
	return root
}

// commands are those of the program. 'sandbox run', which has the most flags and is run the most often, does without the
// others.
func (a *app) commands() []*cobra.Command {
	if a.runs {
		return []*cobra.Command{a.runCommand()}
	}
	return []*cobra.Command{
		a.runCommand(), a.stepCommand(), a.startCommand(), a.stopCommand(), a.attachCommand(), a.serveCommand(), a.gatewayCommand(), a.historyCommand(), a.markCommand(), a.showCommand(), a.diffCommand(),
		a.undoCommand(), a.redoCommand(), a.restoreCommand(), a.catCommand(),
		a.approveCommand(), a.denyCommand(), a.pendingCommand(),
		approvals.Commands{Stdin: a.stdin, Stdout: a.stdout, JSON: func() bool { return a.flags.json }, Launch: func() *launch.Launcher { return a.launch }}.Command(),
		a.statusCommand(), a.gcCommand(), a.inspectCommand(), a.psCommand(),
		a.services().Service(), a.services().Kill(),
		a.configCommand(), a.profileCommand(), a.installCommand(), a.uninstallCommand(), a.hookCommand(), a.mcpCommand(), a.guestCommand(), a.doctorCommand(), a.versionCommand(),
		approvals.DecisionCommands{Out: a.out, Stderr: a.stderr, JSON: func() bool { return a.flags.json }, Folder: func() (api.Directory, error) { return a.launch.FolderWithHistory() }, Now: time.Now}.Command(),
		a.whyCommand(),
		serve.PageCommands{Out: a.out, Stderr: a.stderr, JSON: func() bool { return a.flags.json }, Launch: func() *launch.Launcher { return a.launch }, Logger: func() *slog.Logger { return a.log }, Version: version}.Command(),
		a.policyCommand(), a.policies().Answers(),
		launch.OverlayCommands{Out: a.out, Stderr: a.stderr, JSON: func() bool { return a.flags.json }, Dir: launch.OverlayDir}.Command(),
		manual.Command(),
	}
}

func (a *app) policies() approvals.PolicyCommands {
	return approvals.PolicyCommands{Out: a.out, Stderr: a.stderr, JSON: func() bool { return a.flags.json }, Places: a.policyPlaces, Effect: a.effect, Now: time.Now}
}

// policyPlaces are where the rules for the working folder are.
func (a *app) policyPlaces() (approval.Places, error) {
	folder, err := a.launch.PolicyFolder()
	return launch.PolicyPlaces(folder), err
}

// effect says what a rule would decide in the sessions that are started here.
func (a *app) effect(r approval.Rule) (string, error) {
	cfg, err := a.launch.SessionConfig()
	if err != nil {
		return "", nil //nolint:nilerr // a session does not start, and says why; the rule may be what mends it
	}
	return approvals.Effect(cfg, r)
}

// policyCommand takes the flags that decide whether a rule has an effect.
func (a *app) policyCommand() *cobra.Command {
	cmd := a.policies().Command()
	a.addKeyFlags(cmd, "isolation", "mode", "gate")
	return cmd
}

// whyCommand takes the flags that decide what it explains.
func (a *app) whyCommand() *cobra.Command {
	cmd := approvals.WhyCommands{
		Out: a.out, JSON: func() bool { return a.flags.json }, Policy: launch.Policy,
		Config: func() (api.Config, error) {
			if err := a.launch.Useless(); err != nil {
				return api.Config{}, err
			}
			return a.launch.SessionConfig()
		},
		Attended: func(cfg api.Config) bool {
			a.launch.Attended(&cfg)
			return cfg.Attended == nil || console.Asks() || cfg.Attended()
		},
	}.Command()
	a.addKeyFlags(cmd, a.sessionFlags...)
	return cmd
}

// flagError says of a wrong flag what is wrong with it and what was probably meant, not who found out.
func flagError(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		value   *pflag.InvalidValueError
		number  *strconv.NumError
	)
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		if _, e := strconv.Atoi(unknown.GetSpecifiedShortnames()); e == nil {
			return fmt.Errorf("%w; a number stands without a dash", err)
		}
	case errors.As(err, &unknown):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if meant := config.Closest(unknown.GetSpecifiedName(), names); meant != "" {
			return fmt.Errorf("%w; do you mean --%s?", err, meant)
		}
	case errors.As(err, &value) && value.GetFlag().Value.Type() == "duration":
		return fmt.Errorf("--%s %q is no time: write 90s, 10m or 2h", value.GetFlag().Name, value.GetValue())
	case errors.As(err, &value) && errors.As(err, &number):
		return fmt.Errorf("--%s %q is not a whole number", value.GetFlag().Name, value.GetValue())
	}
	return err
}

// addKeyFlags gives a command, and those below it, flags that set keys of the
// configuration.
func (a *app) addKeyFlags(cmd *cobra.Command, names ...string) {
	a.addAliases(cmd, names)
	for _, name := range names {
		v := a.keyFlags[name]
		f := cmd.PersistentFlags().VarPF(v, name, "", v.Usage())
		if v.Bool() {
			f.NoOptDefVal = "true"
		}
		if values := v.Enum(); values != nil {
			// It fails only for a flag that is not there.
			_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

// setUp reads the configuration and makes the logger.
func (a *app) setUp(cmd *cobra.Command) error {
	from := a.places
	from.Named = a.flags.configFile
	conf, err := config.Load(from)
	if err != nil && forgiving(cmd) {
		conf, err = config.New(), nil
	}
	if err != nil {
		return a.failure(cmd, err)
	}
	a.conf = conf
	a.launch = &launch.Launcher{
		Conf: conf, Dirs: a.flags.dirs, ConfigFile: a.flags.configFile, AllowHost: len(a.keyFlags["allow-host"].Values) > 0,
		Umask: a.umask, Ahead: a.ahead, Stderr: a.stderr, Remark: a.remark, RemarkOnce: a.once(),
	}
	// Where the log is decides which folder is meant; the rest comes after that
	// folder's own file.
	if err := a.keyFlags.Apply(conf, func(name string) bool { return name == "undo-dir" }); err != nil {
		return a.failure(cmd, err)
	}
	a.base = conf.Clone()
	if err := a.addProject(cmd); err != nil {
		return a.failure(cmd, err)
	}
	if err := a.keyFlags.Apply(conf, func(name string) bool { return name != "undo-dir" }); err != nil {
		return a.failure(cmd, err)
	}
	if serves(cmd) && conf.Origin("log.level")[0].Level == config.FromDefault {
		conf.Log.Level = "info" // nothing of a command's is on its stderr
	}
	asked := conf.Origin("log.level")[0].Level != config.FromDefault
	if a.log, err = console.NewLogger(a.stderr, conf.Log.Level, logForm(cmd.Name(), conf.Log.Format, asked)); err != nil {
		return console.Usage(err)
	}
	a.launch.Log = a.log
	a.serving = serves(cmd)
	a.paint = console.NewPainter(a.stdout)
	return nil
}

// logForm is the form of a command's log. Who asked for none reads what stands on stderr: there a warning has the form of all else. What
// runs in the background, or serves a program, has a log of its own there.
func logForm(command, form string, asked bool) string {
	if form == "auto" && !asked && command != "serve" && command != "gateway" && command != "start" {
		return "text"
	}
	return form
}

// serves reports whether a command serves other programs until it is ended: its stderr is a log.
func serves(cmd *cobra.Command) bool { return cmd.Name() == "serve" || cmd.Name() == "gateway" }

// startsSession reports whether a command lets something run: these do not go
// on when the project's own file is wrong. All others do, so that what ran
// inside cannot prevent an undo by writing nonsense there.
func startsSession(cmd *cobra.Command) bool {
	switch cmd.Name() {
	case "run", "start", "attach", "serve", "hook":
		return true
	}
	return cmd.Name() == "show" && cmd.Parent().Name() == "config"
}

// addProject reads the file in the working folder, unless another was named.
func (a *app) addProject(cmd *cobra.Command) error {
	if a.flags.configFile != "" || forgiving(cmd) {
		return nil
	}
	if p := cmd.Flags().Lookup("protocol"); p != nil && p.Value.String() != "mcp" {
		return nil // session.start says where the project is
	}
	dirs, err := a.launch.Folders(!startsSession(cmd))
	if err != nil {
		return nil // the command itself will say it, if it needs a folder
	}
	err = a.conf.AddProject(dirs[0].Path)
	if err != nil && !startsSession(cmd) {
		a.remark("sandbox: ignoring the project's file: " + config.Brief(err))
		return nil
	}
	return err
}

// failure gives err the status of our own failure: 125 where a command is run, 1
// elsewhere.
func (a *app) failure(cmd *cobra.Command, err error) error {
	if cmd.Name() == "run" || cmd.Name() == "attach" {
		return &console.Error{Code: console.Ours, Err: err}
	}
	if cmd.Name() == "hook" {
		return &console.Error{Code: hookFailed, Err: err}
	}
	return err
}

// checkHelp has 'sandbox help' refuse a command that there is not.
func checkHelp(root *cobra.Command) {
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		return
	}
	help.Args = func(_ *cobra.Command, args []string) error {
		at, rest, err := root.Find(args)
		if err == nil && len(rest) > 0 {
			err = unknownCommand(at, rest[0])
		}
		return err
	}
}

// unknownCommand says that a command has none below it of that name, and which was probably meant.
func unknownCommand(cmd *cobra.Command, name string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(append(names, c.Name()), c.Aliases...)
	}
	if meant := config.Closest(name, names); meant != "" {
		return console.Usagef("unknown command %q; do you mean '%s %s'?", name, cmd.CommandPath(), meant)
	}
	return console.Usagef("unknown command %q", name)
}

// checkArgs says of arguments that check refuses what the command takes.
func checkArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil || console.IsUsage(err) {
			return err
		}
		usage := cmd.UseLine()
		switch {
		case len(args) == 0:
			return console.Usagef("an argument is missing: %s", usage)
		case cmd.HasSubCommands():
			return unknownCommand(cmd, args[0])
		}
		for n := len(args) - 1; n >= 0; n-- {
			if check(cmd, args[:n]) == nil {
				return console.Usagef("%q is one argument too many: %s", args[n], usage)
			}
		}
		return console.Usagef("arguments are missing: %s", usage)
	}
}
