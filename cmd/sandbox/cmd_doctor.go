package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/approvals"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/doctor"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
	"github.com/codeagent/sandbox/hypervisor"
)

func (a *app) doctorCommand() *cobra.Command {
	var fix, yes, secrets, features bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can do, and what to install",
		Long: "Say what this machine can do, and what to install. The exit status is 1 if 'sandbox run' cannot work here.\n\n" +
			"--fix prints the commands that mend what this machine's settings refuse: a setting of the kernel, or an AppArmor profile\n" +
			"that lets this program make user namespaces. With --yes it carries them out, which only root can. What a container\n" +
			"refuses is set where the container is started.\n\n" +
			"--secrets lists what is hidden from commands here, and what looks like a secret and can be read: by its name and place, in the\n" +
			"home directory and the working folder. Of what is in the files nothing is printed.\n\n" +
			"--features lists what sessions have with each isolation, and with --isolation why that one has something not.",
		Args: checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (secrets || features) && (fix || yes) {
				return console.Usagef("--secrets and --features look, and mend nothing: use them without --fix")
			}
			if secrets {
				return a.secrets(cmd.Context())
			}
			if features {
				return a.features()
			}
			findings := doctor.Examine(cmd.Context(), a.host())
			if fix || yes {
				return a.fix(cmd.Context(), findings, yes)
			}
			failed := 0
			for _, f := range findings {
				if f.State == "fail" {
					failed++
				}
			}
			if a.flags.json {
				if err := a.out.JSON(findings); err != nil {
					return err
				}
			} else {
				a.printFindings(findings)
			}
			if failed > 0 {
				return &console.Error{Code: console.Failed, Err: fmt.Errorf("'sandbox run' cannot work here: %d problem(s)", failed)}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "print the commands that mend what can be mended here")
	cmd.Flags().BoolVar(&yes, "yes", false, "with --fix: carry them out")
	cmd.Flags().BoolVar(&secrets, "secrets", false, "list what is hidden from commands, and what looks like a secret and is not")
	cmd.Flags().BoolVar(&features, "features", false, "list what sessions have with each isolation, or with that of --isolation")
	a.addKeyFlags(cmd, "isolation", "hide", "show", "profile")
	return cmd
}

// features says what sessions have, whatever this machine can.
func (a *app) features() error {
	list := doctor.Features(a.conf.Isolation)
	if a.flags.json {
		return a.out.JSON(list)
	}
	if err := a.out.Table(func(w io.Writer) { doctor.WriteFeatures(w, list) }); err != nil || a.conf.Isolation != "auto" {
		return err
	}
	fmt.Fprintln(a.stderr, "yes*: under a condition, or in another way. 'sandbox doctor --features --isolation NAME' says which, and why something is not there.")
	return nil
}

// longestSearch bounds the search for what looks like a secret.
const longestSearch = 20 * time.Second

// secrets says what is hidden here, and what looks as if it should be.
func (a *app) secrets(ctx context.Context) (err error) {
	cfg, err := a.launch.SessionConfig()
	if err != nil {
		return err
	}
	s := doctor.Secrets{Isolation: cfg.Runtime.Name(), Hidden: []hypervisor.Secret{}, Notes: []string{}, Visible: []doctor.Likely{}}
	var dirs []string
	for _, d := range cfg.Directories {
		dirs = append(dirs, d.Path)
	}
	if s.Isolation != "none" {
		if s.Hidden, s.Notes, err = approvals.Hidden(cfg); err != nil {
			return err
		}
	}
	if home, err := os.UserHomeDir(); err == nil && s.Isolation != "vm" {
		dirs = append(dirs, home)
	}
	ctx, cancel := context.WithTimeout(ctx, longestSearch)
	defer cancel()
	s.Search(ctx, dirs...)
	if a.flags.json {
		return a.out.JSON(s)
	}
	fmt.Fprint(a.out, s.Text())
	return nil
}

// fix mends what the findings say, or prints how.
func (a *app) fix(ctx context.Context, findings []doctor.Finding, yes bool) error {
	fixes := doctor.Fixes(findings, doctor.ReadText)
	for _, f := range fixes {
		if !yes {
			fmt.Fprint(a.out, f.Commands())
			continue
		}
		if err := f.Install(ctx, ""); err != nil {
			return err
		}
		fmt.Fprintln(a.stderr, "Installed "+f.File+": "+f.What+".")
	}
	if len(fixes) == 0 {
		fmt.Fprintln(a.stderr, "There is nothing to mend by a setting of this machine; 'sandbox doctor' says what else is missing.")
	}
	return nil
}

func (a *app) printFindings(findings []doctor.Finding) {
	for _, f := range findings {
		mark := a.paint.Green("ok  ")
		switch f.State {
		case "warn":
			mark = a.paint.Yellow("warn")
		case "fail":
			mark = a.paint.Red("FAIL")
		}
		fmt.Fprintf(a.out, "%s  %-16s %s\n", mark, f.Name, f.Detail)
		if f.Advice != "" {
			fmt.Fprintf(a.out, "      %-16s -> %s\n", "", f.Advice)
		}
	}
}

// host is this machine, as the configuration would use it.
func (a *app) host() doctor.Host {
	return doctor.Host{
		Bridge:   a.conf.Bridge.Bridge,
		Jail:     func() (hypervisor.Runtime, error) { return a.launch.Runtime("jail") },
		Landlock: func() (hypervisor.Runtime, error) { return a.launch.Runtime("landlock") },
		Limits:   a.launch.Config(nil).Limits,
		Weaker:   launch.Weaker(),
		Machine:  func() (doctor.Machine, error) { return a.launch.Machine() },
		Place: func() (why string, passed []string) {
			dirs, err := a.launch.Directories(false)
			if err != nil || a.conf.Undo.Dir != "" {
				return "", nil
			}
			return actors.WhyThere(dirs[0].Path)
		},
		Folder: func() (folder, undoDir string, err error) {
			dirs, err := a.launch.Directories(false)
			if err != nil {
				return "", "", err
			}
			return dirs[0].Path, dirs[0].UndoDir, nil
		},
	}
}
