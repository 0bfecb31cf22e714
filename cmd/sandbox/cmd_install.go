package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/agents"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/serve"
)

// registration is what install and uninstall are asked for.
type registration struct {
	client, scope, name string
	mcp, shell, both    bool
	print, force, list  bool
	expect              string
}

func (r *registration) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.client, "client", "", "whose files: "+strings.Join(agents.ClientNames(), ", "))
	f.StringVar(&r.scope, "scope", string(agents.User), "user, or project: the files in the current directory")
	f.StringVar(&r.name, "name", "sandbox", "what the server is called there")
	f.BoolVar(&r.mcp, "mcp", false, "the MCP server")
	f.BoolVar(&r.shell, "shell", false, "the hook through which the client's shell commands go, and the command sandbox-undo")
	f.BoolVar(&r.both, "both", false, "the server and the hook")
	f.BoolVar(&r.force, "force", false, "also what is there under that name and is not this program's")
	f.StringVar(&r.expect, "expect", "", "do just what was previewed: the digest that --print --json said")
	// These fail only for flags that are not there.
	_ = cmd.RegisterFlagCompletionFunc("client", cobra.FixedCompletions(agents.ClientNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("scope", cobra.FixedCompletions([]string{"user", "project"}, cobra.ShellCompDirectiveNoFileComp))
}

func (a *app) installCommand() *cobra.Command {
	var r registration
	cmd := &cobra.Command{
		Use:   "install --client CLIENT [--mcp|--shell|--both] [flags] [-- FLAG...]",
		Short: "Let an agent work through this program: as its MCP server, as its shell, or both",
		Long: "Let an agent work through this program.\n\n" +
			"--mcp (the default) puts this program into the client's list of MCP servers. --shell puts a hook into the client's\n" +
			"settings, by which its shell commands go through 'sandbox run', and a command sandbox-undo. --both does both.\n\n" +
			"Nothing else in the client's files changes, a copy of each is kept beside it, and a second run does nothing.\n" +
			"What stands behind -- are more flags of serve, with --shell of run.\n\n" +
			"--list says which clients this machine has, and what of this program is in their files. --print --json says what would\n" +
			"become of each file, as a diff.",
		RunE: func(_ *cobra.Command, args []string) error { return a.install(r, args) },
	}
	r.flags(cmd)
	cmd.Flags().BoolVar(&r.print, "print", false, "only print what would be put where; with --json, as a diff of each file")
	cmd.Flags().BoolVar(&r.list, "list", false, "list the clients, and what is installed")
	return cmd
}

func (a *app) uninstallCommand() *cobra.Command {
	var r registration
	cmd := &cobra.Command{
		Use:   "uninstall --client CLIENT [--mcp|--shell|--both] [flags]",
		Short: "Take out of an agent's files what install has put there",
		Args:  checkArgs(cobra.NoArgs),
		RunE:  func(*cobra.Command, []string) error { return a.uninstall(r) },
	}
	r.flags(cmd)
	cmd.Flags().BoolVar(&r.print, "print", false, "only print what would be changed, as a diff")
	return cmd
}

// where finds the client, and the folder that its files must be in.
func (r *registration) where() (c agents.Client, p agents.Places, within string, err error) {
	if r.client == "" {
		return c, p, "", console.Usage(errors.New("--client is missing: " + strings.Join(agents.ClientNames(), ", ")))
	}
	if c, err = agents.FindClient(r.client); err != nil {
		return c, p, "", console.Usagef("--client: %w", err)
	}
	if r.scope != string(agents.User) && r.scope != string(agents.Project) {
		return c, p, "", console.Usagef("--scope: %q is not one of user, project", r.scope)
	}
	if r.mcp && r.shell || r.both && (r.mcp || r.shell) {
		return c, p, "", console.Usagef("--mcp, --shell and --both exclude each other")
	}
	if r.name == "" || strings.ContainsFunc(r.name, func(c rune) bool { return c < ' ' || c == '"' || c == '\\' }) {
		return c, p, "", console.Usagef("--name: %q cannot be a server's name", r.name)
	}
	p, err = agents.ClientsHere()
	if r.scope == string(agents.Project) {
		within = p.Project
	}
	return c, p, within, err
}

func (a *app) install(r registration, extra []string) error {
	if r.list {
		return a.listClients(r)
	}
	c, places, within, err := r.where()
	if err != nil {
		return err
	}
	if !r.shell && !r.both {
		r.mcp = true
	}
	want := agents.Want{Name: r.name, MCP: r.mcp || r.both, Shell: r.shell || r.both, Force: r.force}
	if want.MCP {
		if want.Server, err = a.mcpServer(c, extra); err != nil {
			return err
		}
	}
	if want.Shell {
		if want.Server.Command, want.Hook, err = a.hookLine(c, extra); err != nil {
			return err
		}
	}
	parts, err := c.Parts(places, agents.Scope(r.scope), want)
	if err != nil {
		return console.Usage(err)
	}
	if r.print && !a.flags.json {
		return a.printParts(c, parts, r, want)
	}
	parts, err = a.planned(&r, parts, within, false) // all of it, or nothing
	if err != nil || r.print {
		return err
	}
	changes := []agents.Change{}
	for _, p := range parts {
		change, err := p.Add(within, 0o666&^os.FileMode(a.umask), time.Now())
		if err != nil {
			return r.refused(p, change, err)
		}
		changes = append(changes, change)
		a.registered(p, change, "added to", "is already in")
	}
	if want.Shell && c.Afterwards != "" {
		fmt.Fprintln(a.stderr, c.Afterwards)
	}
	return a.changes(changes)
}

func (a *app) uninstall(r registration) error {
	c, places, within, err := r.where()
	if err != nil {
		return err
	}
	all := r.both || !r.mcp && !r.shell
	want := agents.Want{Name: r.name, MCP: r.mcp || all, Shell: r.shell || all && c.NoShell(places) == "", Force: r.force}
	if want.Server.Command, err = ownPath(); err != nil {
		return err
	}
	want.Hook = want.Server.Command
	parts, err := c.Parts(places, agents.Scope(r.scope), want)
	if err != nil {
		return console.Usage(err)
	}
	slices.Reverse(parts)
	if r.print || r.expect != "" {
		if parts, err = a.planned(&r, parts, within, true); err != nil || r.print {
			return err
		}
	}
	changes := []agents.Change{}
	for _, p := range parts {
		change, err := p.Remove(within, time.Now())
		if err != nil {
			return r.refused(p, change, err)
		}
		changes = append(changes, change)
		a.registered(p, change, "removed from", "is not in")
	}
	return a.changes(changes)
}

// planned finds out what the parts would do. It prints that, or checks that it is what is
// expected: the parts that it returns do that then, and nothing else.
func (a *app) planned(r *registration, parts []agents.Part, within string, remove bool) ([]agents.Part, error) {
	steps, err := agents.Plan(parts, within, remove)
	if at := (*agents.PartError)(nil); errors.As(err, &at) {
		return nil, r.refused(at.Part, agents.Change{File: at.Part.File}, at.Err)
	}
	if err != nil || !r.print && r.expect == "" {
		return parts, err
	}
	preview, err := agents.PreviewOf(steps)
	if err != nil {
		return nil, err
	}
	if r.expect != "" && preview.Digest != r.expect {
		return nil, &console.Error{Code: console.Barrier, Err: errors.New("the files were changed since the preview, or something else was previewed; look at it again")}
	}
	for i, s := range steps {
		parts[i] = s.Pinned()
	}
	if !r.print {
		return parts, nil
	}
	if a.flags.json {
		return nil, a.out.JSON(preview)
	}
	for _, c := range preview.Changes {
		if c.Change == "none" {
			fmt.Fprintf(a.stderr, "%s: nothing to do\n", console.Shown(c.File))
			continue
		}
		if err := a.out.Contents(func(w io.Writer) error { _, err := io.WriteString(w, c.Diff); return err }); err != nil {
			return nil, err
		}
		if c.Cut {
			fmt.Fprintf(a.stderr, "the diff of %s is longer; its rest is not printed\n", console.Shown(c.File))
		}
	}
	return nil, nil
}

// listClients says which clients there are, and what of ours is in their files.
func (a *app) listClients(r registration) error {
	only := r.client
	r.client = cmp.Or(r.client, agents.ClientNames()[0]) // where checks one
	_, places, _, err := r.where()
	if err != nil {
		return err
	}
	program, err := ownPath()
	if err != nil {
		return err
	}
	list := agents.LookClients(places, agents.Scope(r.scope), r.name, program)
	if only != "" {
		list = slices.DeleteFunc(list, func(f agents.FoundClients) bool { return f.Name != only })
	}
	if a.flags.json {
		return a.out.JSON(list)
	}
	return a.out.Table(func(w io.Writer) {
		fmt.Fprintln(w, "CLIENT\tFOUND\tMCP\tSHELL")
		for _, f := range list {
			found := "-"
			if f.Found {
				found = console.Shown(cmp.Or(f.Program, f.Folder))
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Name, found, integrated(f.MCP), integrated(f.Shell))
		}
	})
}

// integrated is a cell of that table.
func integrated(in agents.Integration) string {
	switch {
	case in.Installed:
		return console.Shown(in.File)
	case in.Why != "":
		return "- (" + console.OneLine(in.Why, 60) + ")"
	}
	return "-"
}

// mcpServer is how the client is to start us.
func (a *app) mcpServer(c agents.Client, extra []string) (agents.Server, error) {
	if err := takes("serve", extra); err != nil {
		return agents.Server{}, err
	}
	command, err := ownPath()
	if err != nil {
		return agents.Server{}, err
	}
	folders, err := a.folderFlags()
	if err != nil {
		return agents.Server{}, err
	}
	switch {
	case len(a.flags.dirs) > 0:
	case c.Workspace != "":
		folders = append([]string{"--working-dir", c.Workspace}, folders...)
	case c.Homeless && len(a.conf.Directory) == 0:
		return agents.Server{}, console.Usagef("%s starts servers in no particular folder: name one with --working-dir", c.Title)
	}
	return c.Entry(command, slices.Concat([]string{"serve", "--protocol", "mcp"}, folders, extra))
}

// hookLine is the command line that the client is to ask, and the program in it.
func (a *app) hookLine(c agents.Client, extra []string) (command, line string, err error) {
	if err := takes("run", extra); err != nil {
		return "", "", err
	}
	if command, err = ownPath(); err != nil {
		return "", "", err
	}
	flags, err := a.folderFlags()
	if err != nil {
		return "", "", err
	}
	words := []string{command, "hook", c.Name}
	if flags = append(flags, extra...); len(flags) > 0 {
		words = append(append(words, "--"), flags...)
	}
	return command, api.ShellQuote(words...), nil
}

// folderFlags are the flags that name what --working-dir and --config-file name here,
// from anywhere.
func (a *app) folderFlags() (flags []string, err error) {
	if len(a.flags.dirs) > 0 {
		dirs, err := a.launch.Directories(false)
		if err != nil {
			return nil, err
		}
		for _, d := range dirs {
			word := d.Path
			if d.Label != "" {
				word = d.Label + "=" + word
			}
			if d.ReadOnly {
				word += ":ro"
			}
			flags = append(flags, "--working-dir", word)
		}
	}
	if a.flags.configFile != "" {
		path, err := filepath.Abs(a.flags.configFile)
		if err != nil {
			return nil, err
		}
		flags = append(flags, "--config-file", path)
	}
	return flags, nil
}

// takes checks flags that a command is to be started with later.
func takes(command string, flags []string) error {
	root := (&app{}).rootCommand()
	cmd, _, err := root.Find([]string{command})
	if err == nil {
		err = cmd.ParseFlags(flags)
	}
	if err == nil && cmd.Flags().NArg() > 0 {
		err = fmt.Errorf("%s takes no argument %q here", command, cmd.Flags().Arg(0))
	}
	if err != nil {
		return console.Usagef("behind --: %w", err)
	}
	return nil
}

// ownPath is how this program can be started from anywhere: by the name in PATH
// that leads to it, which outlives an update, else by the file itself.
func ownPath() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	named, err := exec.LookPath("sandbox")
	if err != nil || !filepath.IsAbs(named) {
		return self, nil
	}
	x, err1 := os.Stat(self)
	y, err2 := os.Stat(named)
	if err1 == nil && err2 == nil && os.SameFile(x, y) {
		return named, nil
	}
	return self, nil
}

// printParts writes what each file would get to stdout, and what to do with it to stderr.
func (a *app) printParts(c agents.Client, parts []agents.Part, r registration, w agents.Want) error {
	for _, p := range parts {
		snippet, err := p.Snippet()
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stderr, "%s reads this from %s:\n", c.Title, console.Shown(p.File))
		if _, err := a.out.Write(snippet); err != nil {
			return err
		}
	}
	if c.Name == "claude-code" && w.MCP && runtime.GOOS != "windows" {
		words := []string{"claude", "mcp", "add", "--transport", "stdio", "--scope", r.scope, r.name, "--", w.Server.Command}
		fmt.Fprintf(a.stderr, "(or: %s)\n", api.ShellQuote(append(words, w.Server.Args...)...))
	}
	return nil
}

// refused says what to do where something is in the way.
func (r *registration) refused(p agents.Part, c agents.Change, err error) error {
	if errors.Is(err, agents.ErrStale) {
		return &console.Error{Code: console.Barrier, Err: fmt.Errorf("%s: %w; look at it again", c.File, err)}
	}
	if errors.Is(err, agents.ErrForeign) && p.What == r.name {
		return fmt.Errorf("%s: %q is there and starts something else; choose another --name, or use --force", c.File, r.name)
	}
	if errors.Is(err, agents.ErrForeign) {
		return fmt.Errorf("%s is there and was not made by this program; move it away, or use --force", c.File)
	}
	return err
}

// registered says what was done.
func (a *app) registered(p agents.Part, c agents.Change, done, nothing string) {
	if a.flags.json {
		return
	}
	if !c.Changed {
		fmt.Fprintf(a.stderr, "%s %s %s: nothing to do\n", p.What, nothing, console.Shown(c.File))
		return
	}
	fmt.Fprintf(a.stderr, "%s %s %s\n", p.What, done, console.Shown(c.File))
	if c.Backup != "" {
		fmt.Fprintf(a.stderr, "as it was: %s\n", console.Shown(c.Backup))
	}
}

func (a *app) changes(list []agents.Change) error {
	if !a.flags.json {
		return nil
	}
	return a.out.JSON(list)
}

// hookFailed is the exit status at which every client keeps its tool from running.
const hookFailed = 2

func (a *app) hookCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hook CLIENT [-- RUN-FLAG...]",
		Short: "Answer an agent that asks, before it runs a shell command, what to run",
		Long: "Answer an agent that asks, before it runs a shell command, what to run: the same command in 'sandbox run'.\n\n" +
			"'sandbox install --shell' makes the agent ask. The question is JSON on stdin, the answer JSON on stdout.\n" +
			"The exit status is 0, or 2 if the agent must not run anything. Agents: " + strings.Join(agents.HookClients(), ", ") + ".",
		Args:              checkArgs(cobra.MinimumNArgs(1)),
		ValidArgsFunction: cobra.FixedCompletions(agents.HookClients(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := a.hook(args[0], args[1:]); err != nil {
				return &console.Error{Code: hookFailed, Err: err}
			}
			return nil
		},
	}
}

func (a *app) hook(client string, flags []string) error {
	if err := takes("run", flags); err != nil {
		return err
	}
	if launch.InsideSocket() != "" { // the agent itself runs in the sandbox: what they say of a session holds outside
		flags = nil
	}
	question, err := io.ReadAll(io.LimitReader(a.stdin, agents.MaxHookBytes+1))
	if err != nil {
		return err
	}
	self, err := ownPath()
	if err != nil {
		return err
	}
	c := a.conf.Classifier
	k, err := serve.NewClassifier(serve.ClassifierConfig{ReadOnly: c.ReadOnly, Write: c.Write, Destructive: c.Destructive, MaxBytes: int(c.MaxBytes)})
	if err != nil {
		return err
	}
	shell := "sh"
	if _, err := exec.LookPath("bash"); err == nil {
		shell = "bash" // what agents write for
	}
	answer, err := agents.AnswerHook(client, question, agents.HookOptions{
		Run: slices.Concat([]string{self, "run"}, flags, []string{"--"}), Shell: shell,
		Ask: func(command string) string {
			r := k.Classify(command)
			if c.AutoApprove == "all" || r.AutoApprove(c.AutoApprove) {
				return ""
			}
			return r.Why()
		},
	})
	if err != nil {
		return err
	}
	_, err = a.out.Write(answer)
	return err
}
