package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHelp: each command says what it does and shows an example of itself, and
// every example is a command line that is understood.
func TestHelp(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Name() == "help" {
			return
		}
		if cmd.Short == "" {
			t.Errorf("%s: no description", cmd.CommandPath())
		}
		own := !cmd.HasParent() // the program's own help shows examples as text
		for line := range strings.Lines(cmd.Example) {
			own = checkExample(t, cmd.CommandPath(), strings.TrimSpace(line)) || own
		}
		if !own {
			t.Errorf("%s --help has no example of it", cmd.CommandPath())
		}
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	root := (&app{}).rootCommand()
	visit(root)
	for _, cmd := range root.Commands() {
		if cmd.GroupID == "" && !cmd.Hidden {
			t.Errorf("%s stands in no group of the help", cmd.CommandPath())
		}
	}
	for words := range examples {
		if cmd, _, err := root.Find(strings.Fields(words)); words != "guest" && (err != nil || cmd.CommandPath() != "sandbox "+words) {
			t.Errorf("an example of %q, which is no command", words)
		}
	}
}

// checkExample reports whether the example is one of the command.
func checkExample(t *testing.T, path, example string) (own bool) {
	t.Helper()
	line := strings.TrimSuffix(strings.TrimPrefix(example, "source <("), ")")
	line, _, _ = strings.Cut(line, " >")
	line, _, _ = strings.Cut(line, " | ")
	args := strings.Fields(line)
	if len(args) < 2 || args[0] != "sandbox" {
		t.Errorf("%s: the example %q does not run it", path, example)
		return false
	}
	cmd, rest, err := (&app{}).rootCommand().Find(args[1:])
	if err != nil || !cmd.Runnable() {
		t.Errorf("%s: the example %q: %v", path, example, err)
		return false
	}
	err = cmd.ParseFlags(rest)
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Errorf("%s: the example %q: %v", path, example, err)
	}
	return cmd.CommandPath() == path || strings.HasPrefix(cmd.CommandPath(), path+" ")
}

// TestFilesAreCompletedWhereTheyAreTaken: a shell offers file names only to
// commands that take files.
func TestFilesAreCompletedWhereTheyAreTaken(t *testing.T) {
	root := (&app{}).rootCommand()
	for _, c := range root.Commands() {
		if c.Name() == "help" || c.HasSubCommands() {
			continue
		}
		if takes := slices.Contains(takeFiles, c.Name()); takes != (c.ValidArgsFunction == nil) {
			t.Errorf("%s: completes files: %v, takes files: %v", c.Name(), c.ValidArgsFunction == nil, takes)
		}
	}
}

// TestRunAloneIsTheSame: the tree of commands that 'sandbox run' makes for itself describes it as the whole one does.
func TestRunAloneIsTheSame(t *testing.T) {
	texts := map[bool]string{}
	for _, alone := range []bool{false, true} {
		root := (&app{runs: alone}).rootCommand()
		cmd, _, err := root.Find([]string{"run"})
		if err != nil {
			t.Fatal(err)
		}
		cmd.InitDefaultHelpFlag()
		texts[alone] = cmd.CommandPath() + "\n" + cmd.Long + "\n" + cmd.UsageString()
	}
	if texts[true] != texts[false] || len(texts[true]) < 1000 {
		t.Errorf("alone:\n%s\namong all:\n%s", texts[true], texts[false])
	}
}
