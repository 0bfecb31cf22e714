package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/clients"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/exit"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/format"
)

func (a *app) mcpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Register this program with an MCP client, or connect one to a session",
		Args:  checkArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.mcpInstallCommand(), a.mcpUninstallCommand(), a.mcpConnectCommand())
	return cmd
}

// registration is what mcp install and uninstall are asked for.
type registration struct {
	client, scope, name string
	print, force        bool
}

func (r *registration) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.client, "client", "", "whose file: "+strings.Join(clients.Names(), ", "))
	f.StringVar(&r.scope, "scope", string(clients.User), "user, or project: the file in the current directory")
	f.StringVar(&r.name, "name", "sandbox", "what the server is called there")
	f.BoolVar(&r.force, "force", false, "also an entry of that name that starts something else")
	// These fail only for flags that are not there.
	_ = cmd.RegisterFlagCompletionFunc("client", cobra.FixedCompletions(clients.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("scope", cobra.FixedCompletions([]string{"user", "project"}, cobra.ShellCompDirectiveNoFileComp))
}

func (a *app) mcpInstallCommand() *cobra.Command {
	var r registration
	cmd := &cobra.Command{
		Use:   "install --client CLIENT [flags] [-- SERVE-FLAG...]",
		Short: "Put this program into the list of servers of an MCP client",
		Long: "Put this program into the list of servers of an MCP client. Nothing else in the client's file changes,\n" +
			"a copy of it is kept beside it, and a second run does nothing. What stands behind -- are more flags of serve.",
		RunE: func(_ *cobra.Command, args []string) error { return a.mcpInstall(r, args) },
	}
	r.flags(cmd)
	cmd.Flags().BoolVar(&r.print, "print", false, "only print what would be put there")
	return cmd
}

func (a *app) mcpUninstallCommand() *cobra.Command {
	var r registration
	cmd := &cobra.Command{
		Use:   "uninstall --client CLIENT [flags]",
		Short: "Take this program out of the list of servers of an MCP client",
		Args:  checkArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			c, file, within, err := r.where()
			if err != nil {
				return err
			}
			command, err := ownPath()
			if err != nil {
				return err
			}
			change, err := clients.Edit(file, within, 0, time.Now(), func(text []byte) ([]byte, error) {
				return c.Remove(text, r.name, command, r.force)
			})
			return a.registered(r, change, err, "removed from", "is not in")
		},
	}
	r.flags(cmd)
	return cmd
}

// where finds the client's file.
func (r *registration) where() (c clients.Client, file, within string, err error) {
	if r.client == "" {
		return c, "", "", exit.Usage(errors.New("--client is missing: " + strings.Join(clients.Names(), ", ")))
	}
	if c, err = clients.Find(r.client); err != nil {
		return c, "", "", exit.Usagef("--client: %w", err)
	}
	if r.scope != string(clients.User) && r.scope != string(clients.Project) {
		return c, "", "", exit.Usagef("--scope: %q is not one of user, project", r.scope)
	}
	if r.name == "" || strings.ContainsFunc(r.name, func(c rune) bool { return c < ' ' || c == '"' || c == '\\' }) {
		return c, "", "", exit.Usagef("--name: %q cannot be a server's name", r.name)
	}
	places, err := clients.Here()
	if err != nil {
		return c, "", "", err
	}
	if r.scope == string(clients.Project) {
		within = places.Project
	}
	if file, err = c.File(places, clients.Scope(r.scope)); err != nil {
		return c, "", "", exit.Usage(err)
	}
	return c, file, within, nil
}

func (a *app) mcpInstall(r registration, extra []string) error {
	c, file, within, err := r.where()
	if err != nil {
		return err
	}
	server, err := a.mcpServer(c, extra)
	if err != nil {
		return err
	}
	if r.print {
		return a.mcpPrint(c, file, r, server)
	}
	mode := os.FileMode(0o600) // it may come to hold keys of other servers
	if within != "" {
		mode = 0o666 &^ os.FileMode(a.umask)
	}
	change, err := clients.Edit(file, within, mode, time.Now(), func(text []byte) ([]byte, error) {
		return c.Add(text, r.name, server, r.force)
	})
	return a.registered(r, change, err, "added to", "is already in")
}

// mcpServer is how the client is to start us.
func (a *app) mcpServer(c clients.Client, extra []string) (clients.Server, error) {
	if err := serveTakes(extra); err != nil {
		return clients.Server{}, err
	}
	command, err := ownPath()
	if err != nil {
		return clients.Server{}, err
	}
	args := []string{"serve", "--protocol", "mcp"}
	switch {
	case len(a.flags.dirs) > 0:
		dirs, err := a.launch.Directories(false)
		if err != nil {
			return clients.Server{}, err
		}
		for _, d := range dirs {
			word := d.Path
			if d.Label != "" {
				word = d.Label + "=" + word
			}
			if d.ReadOnly {
				word += ":ro"
			}
			args = append(args, "--working-dir", word)
		}
	case c.Workspace != "":
		args = append(args, "--working-dir", c.Workspace)
	case c.Homeless && len(a.conf.Directory) == 0:
		return clients.Server{}, exit.Usagef("%s starts servers in no particular folder: name one with --working-dir", c.Title)
	}
	if a.flags.configFile != "" {
		path, err := filepath.Abs(a.flags.configFile)
		if err != nil {
			return clients.Server{}, err
		}
		args = append(args, "--config-file", path)
	}
	return c.Entry(command, append(args, extra...))
}

// serveTakes checks flags that serve is to be started with later.
func serveTakes(flags []string) error {
	root := (&app{}).rootCommand()
	serve, _, err := root.Find([]string{"serve"})
	if err == nil {
		err = serve.ParseFlags(flags)
	}
	if err == nil && serve.Flags().NArg() > 0 {
		err = fmt.Errorf("serve takes no argument %q", serve.Flags().Arg(0))
	}
	if err != nil {
		return exit.Usagef("behind --: %w", err)
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

// mcpPrint writes the snippet to stdout, and what to do with it to stderr.
func (a *app) mcpPrint(c clients.Client, file string, r registration, s clients.Server) error {
	snippet, err := c.Snippet(r.name, s)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "%s reads this from %s:\n", c.Title, format.Shown(file))
	if c.Name == "claude-code" && runtime.GOOS != "windows" {
		words := []string{"claude", "mcp", "add", "--transport", "stdio", "--scope", r.scope, r.name, "--", s.Command}
		fmt.Fprintf(a.stderr, "(or: %s)\n", api.ShellQuote(append(words, s.Args...)...))
	}
	_, err = a.out.Write(snippet)
	return err
}

// registered says what was done.
func (a *app) registered(r registration, c clients.Change, err error, done, nothing string) error {
	if errors.Is(err, clients.ErrForeign) {
		return fmt.Errorf("%s: %q is there and starts something else; choose another --name, or use --force", c.File, r.name)
	}
	if err != nil {
		return err
	}
	if a.flags.json {
		return a.out.JSON(c)
	}
	if !c.Changed {
		fmt.Fprintf(a.stderr, "%s %s %s: nothing to do\n", r.name, nothing, format.Shown(c.File))
		return nil
	}
	fmt.Fprintf(a.stderr, "%s %s %s\n", r.name, done, format.Shown(c.File))
	if c.Backup != "" {
		fmt.Fprintf(a.stderr, "as it was: %s\n", format.Shown(c.Backup))
	}
	return nil
}
