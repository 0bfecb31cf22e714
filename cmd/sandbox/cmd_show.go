package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

func (a *app) showCommand() *cobra.Command {
	output := false
	cmd := &cobra.Command{
		Use:         "show [STEP]",
		Annotations: takesStep(),
		Short:       "Show what one step did (default: the newest)",
		Args:        checkArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			step, err := stepArg(args)
			if err != nil {
				return err
			}
			return a.launch.Looking(cmd.Context(), func(s api.Service, d api.Directory) error {
				r := api.StepRequest{Directory: d.Path, Step: step}
				if output {
					return a.showOutput(cmd.Context(), s, r)
				}
				return a.show(cmd.Context(), s, r)
			})
		},
	}
	cmd.Flags().BoolVar(&output, "output", false, "print what the step's commands wrote to stdout and stderr, as far as it was kept")
	return cmd
}

// showOutput prints what was kept of the output of a step's commands.
func (a *app) showOutput(ctx context.Context, s api.Service, r api.StepRequest) error {
	list, err := s.Output(ctx, r)
	if err != nil {
		return err
	}
	if a.flags.json {
		return a.out.JSON(api.OrEmpty(list))
	}
	if len(list) == 0 {
		fmt.Fprintln(a.stderr, "nothing was kept: the step's commands wrote nothing, were not an agent's, or undo.keep_output is off")
		return nil
	}
	for _, o := range list {
		if len(list) > 1 {
			fmt.Fprintln(a.out, a.paint.Dim("$ "+console.OneLine(o.Command, 200)))
		}
		console.StepOutput(a.out, o, term.IsTerminal(int(a.stdout.Fd())), a.paint)
	}
	return nil
}

func (a *app) show(ctx context.Context, s api.Service, r api.StepRequest) error {
	st, err := s.Show(ctx, r)
	if err != nil {
		return err
	}
	if a.flags.json {
		return a.out.JSON(st)
	}
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(a.out, "%-9s %s\n", key, value)
		}
	}
	line("step", fmt.Sprintf("%d (%s)", st.StepID, st.Type))
	line("command", console.Shown(st.Command))
	line("in", console.Shown(st.Dir))
	console.StepCommands(a.out, st.Entry)
	if st.Group != 0 {
		line("run", fmt.Sprintf("%d: sandbox undo --group %d undoes all of it", st.Group, st.Group))
	}
	line("started", st.StartedAt.Local().Format(time.DateTime)+", "+console.Ago(st.StartedAt, time.Now()))
	if !st.EndedAt.IsZero() {
		line("took", console.Took(st.EndedAt.Sub(st.StartedAt)))
	}
	line("status", console.EntryStatus(st.Entry))
	line("damaged", st.Damaged)
	line("keeps", console.Bytes(st.StoredBytes))
	if len(st.Barriers) > 0 {
		line("barrier", console.Barriers(st.Barriers))
	}
	for _, x := range st.Left {
		line("left", fmt.Sprintf("%s (%s): %s", console.Shown(x.Path), x.What, x.Reason))
	}
	for _, path := range st.NotKept {
		line("not kept", console.Shown(path)+": an undo leaves it as it is")
	}
	if n := st.NotKeptCount - len(st.NotKept); n > 0 {
		line("not kept", fmt.Sprintf("%d more", n))
	}
	line("changed", console.Paths(st.AffectedCount))
	console.Changes(a.out, a.paint, st.Paths, 0)
	return nil
}

// takesStep marks commands whose argument is a step: one between commands has a negative id.
func takesStep() map[string]string { return map[string]string{"argument": "step"} }

// negativeSteps puts ids of steps that begin with a dash behind a "--", as 'sandbox history' prints them: they are no flags.
func negativeSteps(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd.Annotations["argument"] != "step" {
		return args
	}
	var flags, steps []string
	for i, arg := range args {
		if arg == "--" {
			steps = append(steps, args[i+1:]...)
			break
		}
		if n, err := strconv.ParseInt(arg, 10, 64); err == nil && n < 0 && !isValue(cmd, args[:i]) {
			steps = append(steps, arg)
			continue
		}
		flags = append(flags, arg)
	}
	if len(steps) == 0 {
		return args
	}
	return append(append(flags, "--"), steps...)
}

// isValue tells whether what follows is the value of a flag.
func isValue(cmd *cobra.Command, before []string) bool {
	if len(before) == 0 {
		return false
	}
	last := before[len(before)-1]
	var f *pflag.Flag
	switch name, long := strings.CutPrefix(last, "--"); {
	case long:
		f = cmd.Flag(name)
	case len(last) == 2 && last[0] == '-':
		f = cmd.InheritedFlags().ShorthandLookup(last[1:])
	}
	return f != nil && f.NoOptDefVal == ""
}

// stepArg parses an optional step id; 0 if there is none.
func stepArg(args []string) (undolog.StepID, error) {
	if len(args) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil || n == 0 {
		return 0, console.Usagef("%q is not a step: 'sandbox history' lists them", args[0])
	}
	return undolog.StepID(n), nil
}
