package approvals

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

// Answers is the command 'sandbox answers', with the one below it: a view of the rules that
// answers of people made.
func (c PolicyCommands) Answers() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "answers",
		Short: "List the answers to questions that are kept for a folder, or always",
		Long: "An answer to a question about the network, or about a path, stands until the session ends, unless it was given for longer:\n" +
			"'sandbox approve ID --scope project' keeps it for the working folder, '--scope user' for all that you run, and\n" +
			"'--for 8h' ends it. It is a rule of the policy then; 'sandbox policy show --answers' lists the same.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return console.Usagef("unexpected argument %q; 'sandbox answers rm ID' forgets an answer", args[0])
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error { return c.show(options{answers: true}, nil) },
	}
	o, all := options{}, false
	rm := &cobra.Command{
		Use:   "rm [ID...]",
		Short: "Forget answers",
		RunE: func(_ *cobra.Command, ids []string) error {
			if all == (len(ids) > 0) {
				return console.Usagef("name the answers by the ids that 'sandbox answers' lists, or give --all")
			}
			return c.forget(o, ids)
		},
	}
	rm.Flags().BoolVar(&all, "all", false, "forget every answer")
	rm.Flags().BoolVar(&o.dryRun, "dry-run", false, "only say what would change")
	cmd.AddCommand(rm)
	return cmd
}

// forget removes the answers of these ids, or all.
func (c PolicyCommands) forget(o options, ids []string) error {
	rules, err := c.answers()
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, r := range rules {
		known[r.ID] = true
	}
	if len(ids) == 0 {
		for id := range known {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		if !known[id] {
			err = errors.Join(err, console.Usagef("no answer has the id %s; 'sandbox answers' lists them", console.Shown(id)))
		}
	}
	if err != nil {
		return err
	}
	return c.remove(o, ids)
}

// answers are the rules that answers made, for the folder and for always.
func (c PolicyCommands) answers() (list []approval.Rule, err error) {
	if p, err := c.Places(); err == nil {
		if _, err := p.Convert(c.Now()); err != nil {
			c.warn(err)
		}
	}
	rules, err := c.rules("")
	for _, r := range rules {
		if r.Answer != "" && !r.Ended(c.Now()) {
			list = append(list, r)
		}
	}
	return list, err
}
