package approvals

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

// trust is the command 'sandbox policy trust'.
func (c PolicyCommands) trust() *cobra.Command {
	id, restore := "", false
	cmd := &cobra.Command{
		Use:   "trust [--accept ID | --restore]",
		Short: "Show how the project's policy differs from what was accepted, and accept it or put that back",
		Long: "A project's policy that something else than 'sandbox policy' has changed, or that others can write to, does not count.\n" +
			"Sessions start without it. Here a person looks at the difference, and accepts just this.",
		Args: args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if id != "" && restore {
				return console.Usagef("either --accept or --restore")
			}
			return c.trusted(id, restore)
		},
	}
	cmd.Flags().StringVar(&id, "accept", "", "accept the difference that was shown under this `ID`")
	cmd.Flags().BoolVar(&restore, "restore", false, "put back what was accepted last")
	return cmd
}

func (c PolicyCommands) trusted(id string, restore bool) error {
	f, err := c.target("")
	if err != nil {
		return err
	}
	if id != "" || restore {
		return f.Accept(id, restore)
	}
	if _, err = f.Load(); err == nil {
		fmt.Fprintln(c.Stderr, "The project's policy is what was accepted.")
		return nil
	}
	c.warn(err)
	p := f.Proposal()
	for _, l := range difference(p.Accepted, p.Found) {
		fmt.Fprintln(c.Out, console.Shown(l))
	}
	const back = "'sandbox policy trust --restore' puts back what was accepted."
	if p.Err != nil {
		fmt.Fprintln(c.Stderr, "It cannot be accepted: "+console.Shown(p.Err.Error())+". "+back)
	} else {
		fmt.Fprintf(c.Stderr, "'sandbox policy trust --accept %s' accepts this. %s\n", p.ID, back)
	}
	return &console.Error{Code: console.Failed}
}

// difference is what changes from old to now, a line for each rule that goes or comes.
func difference(old, now []approval.Rule) (lines []string) {
	is := func(list []approval.Rule, r approval.Rule) bool {
		return slices.ContainsFunc(list, func(o approval.Rule) bool { return o.Explain() == r.Explain() && o.Answer == r.Answer })
	}
	for _, r := range old {
		if !is(now, r) {
			lines = append(lines, "- "+r.Explain())
		}
	}
	for _, r := range now {
		if !is(old, r) {
			lines = append(lines, "+ "+r.Explain())
		}
	}
	return lines
}
