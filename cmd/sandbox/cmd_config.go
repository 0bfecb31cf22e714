package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/configure"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration, or check a file",
		Args:  checkArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	files := configure.Commands{
		Stdin: a.stdin, Out: a.out, Stderr: a.stderr, JSON: func() bool { return a.flags.json }, Now: time.Now,
		Files:  func() config.Sources { from := a.places; from.Named = a.flags.configFile; return from },
		Folder: a.configFolder, Mode: func() fs.FileMode { return 0o666 &^ fs.FileMode(a.umask) },
	}
	text, write := files.Text(), files.Write()
	text.Args, write.Args = checkArgs(cobra.NoArgs), checkArgs(cobra.ExactArgs(1))
	cmd.AddCommand(a.configShowCommand(), a.configCheckCommand(), a.configPathCommand(), text, write)
	return cmd
}

func (a *app) configShowCommand() *cobra.Command {
	var origin bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print every key with the value that holds here",
		Args:  checkArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			values := a.conf.Values()
			if a.flags.json {
				return a.out.JSON(values)
			}
			return a.out.Table(func(w io.Writer) {
				for _, v := range values {
					fmt.Fprintf(w, "%s = %s", v.Key, console.Shown(v.Text))
					if origin {
						fmt.Fprintf(w, "\t# %s", console.Shown(strings.Join(v.Origin, ", ")))
					}
					if origin && v.Locked {
						fmt.Fprint(w, ", locked")
					}
					fmt.Fprintln(w)
				}
			})
		},
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "say where each value comes from")
	a.addKeyFlags(cmd, a.sessionFlags...)
	a.addKeyFlags(cmd, serveFlags...)
	return cmd
}

func (a *app) configCheckCommand() *cobra.Command {
	var level string
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Say what is wrong with a configuration file",
		Args:  checkArgs(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			at, ok := configure.Levels[level]
			if !ok {
				return console.Usagef("--level: %q is not one of organisation, user, project", level)
			}
			base, err := a.below(at)
			if err != nil {
				return err
			}
			if err := base.Check(args[0], at); err != nil {
				return err
			}
			fmt.Fprintf(a.stderr, "%s: nothing is wrong with it as a file of the %s\n", console.Shown(args[0]), level)
			return nil
		},
	}
	cmd.Flags().StringVar(&level, "level", "user", "whose file it is to be: organisation, user or project")
	return cmd
}

// below is the configuration that a file of the level comes over.
func (a *app) below(level config.Level) (*config.Set, error) {
	from := a.places
	switch level {
	case config.Organisation:
		return config.New(), nil
	case config.User:
		from.User = ""
	default:
		from.Named = a.flags.configFile
	}
	return config.Load(from)
}

func (a *app) configPathCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "path",
		Short: "Print where the configuration files are looked for",
		Args:  checkArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			type place struct {
				Level string `json:"level"`
				Path  string `json:"path"`
				Read  bool   `json:"there"`
			}
			list := []place{{Level: "organisation", Path: a.places.Organisation}}
			if a.flags.configFile != "" {
				list = append(list, place{Level: "named", Path: a.flags.configFile})
			} else {
				list = append(list, place{Level: "user", Path: a.places.User})
				dir, err := a.configFolder()
				if err != nil {
					return err
				}
				list = append(list, place{Level: "project", Path: filepath.Join(dir, config.FileName)})
			}
			for i := range list {
				list[i].Read = list[i].Path != "" && exists(list[i].Path)
			}
			if a.flags.json {
				return a.out.JSON(list)
			}
			return a.out.Table(func(w io.Writer) {
				for _, p := range list {
					note := ""
					if !p.Read {
						note = "(not there)"
					}
					fmt.Fprintf(w, "%s\t%s\t%s\n", p.Level, console.Shown(p.Path), note)
				}
			})
		},
	}
}

// configFolder is the folder that has the project's file.
func (a *app) configFolder() (string, error) {
	dirs, err := a.launch.Folders(true)
	if err != nil {
		return "", err
	}
	return filepath.Abs(dirs[0].Path)
}

// forgiving reports whether a command goes on without the files: those that
// help to put them right, and those that have no use for them.
func forgiving(cmd *cobra.Command) bool {
	switch strings.TrimPrefix(cmd.CommandPath(), "sandbox ") {
	case "config check", "config path", "config text", "config write", "help", "manual", "version", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
		return true
	}
	return cmd.HasParent() && cmd.Parent().Name() == "completion"
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (a *app) profileCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "List, show or make profiles: what single agents need",
		Args:  checkArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var from string
	make := &cobra.Command{
		Use:   "new NAME",
		Short: "Make a profile of your own, for an editor",
		Args:  checkArgs(cobra.ExactArgs(1)),
		RunE:  func(_ *cobra.Command, args []string) error { return a.profileNew(args[0], from) },
	}
	make.Flags().StringVar(&from, "from", "codex", "the `profile` to begin with")
	cmd.AddCommand(
		&cobra.Command{
			Use: "ls", Short: "List all profiles", Args: checkArgs(cobra.NoArgs),
			RunE: func(*cobra.Command, []string) error { return a.profileList() },
		},
		&cobra.Command{
			Use: "show NAME", Short: "Print a profile", Args: checkArgs(cobra.ExactArgs(1)),
			RunE: func(_ *cobra.Command, args []string) error {
				_, found, err := findProfile(args[0])
				if err != nil {
					return err
				}
				if a.flags.json {
					return a.out.JSON(found)
				}
				_, err = io.WriteString(a.out, found.Text)
				return err
			},
		}, make)
	return cmd
}

func findProfile(name string) (config.ProfileSource, config.FoundProfile, error) {
	source, err := config.ProfilesHere()
	if err != nil {
		return source, config.FoundProfile{}, err
	}
	found, err := source.Find(name)
	return source, found, err
}

// profileList prints all profiles; those that are wrong with what is wrong.
func (a *app) profileList() error {
	type row struct {
		config.FoundProfile
		Problem string `json:"problem,omitempty"`
	}
	source, err := config.ProfilesHere()
	if err != nil {
		return err
	}
	names, err := source.Names()
	if err != nil {
		fmt.Fprintln(a.stderr, "sandbox: "+err.Error())
	}
	rows := []row{}
	for _, name := range names {
		found, err := source.Find(name)
		r := row{FoundProfile: found}
		if r.Name = name; err != nil {
			r.Problem = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		rows = append(rows, r)
	}
	if a.flags.json {
		return a.out.JSON(rows)
	}
	return a.out.Table(func(w io.Writer) {
		fmt.Fprintln(w, "NAME\tFROM\tFOR")
		for _, r := range rows {
			from, what := "built in", r.Profile.Description
			if r.File != "" {
				from = r.File
			}
			if r.Problem != "" {
				from, what = "-", r.Problem
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", console.Shown(r.Name), console.Shown(from), console.Shown(what))
		}
	})
}

// profileNew copies a profile to the user's own.
func (a *app) profileNew(name, from string) error {
	if err := config.CheckProfileName(name); err != nil {
		return console.Usage(err)
	}
	source, found, err := findProfile(from)
	if err != nil {
		return err
	}
	file := source.File(name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755&^os.FileMode(a.umask)); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666&^os.FileMode(a.umask))
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there; edit it, or remove it first", file)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(found.Text)
	if err = errors.Join(err, f.Close()); err == nil {
		fmt.Fprintln(a.stderr, "made "+console.Shown(file))
	}
	return err
}
