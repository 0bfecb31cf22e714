package kept

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/answers"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/exit"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/format"
)

// Commands make 'sandbox answers'.
type Commands struct {
	// Out is where results go, Stderr is for people.
	Out    *format.Output
	Stderr io.Writer
	// JSON reports whether data is printed as JSON.
	JSON func() bool
	// Store is where answers are kept.
	Store func() (answers.Store, error)
}

// Command is the command with the one below it.
func (c Commands) Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "answers",
		Short: "List the answers to questions that are kept for a folder, or always",
		Long: "An answer to a question about the network stands until the session ends, unless it was given for longer:\n" +
			"'sandbox approve ID --scope project' keeps it for the working folder, '--scope user' for all that you run. Here they\n" +
			"are listed. A session asks about what was forgotten again from its next start on.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usagef("unexpected argument %q; 'sandbox answers rm ID' forgets an answer", args[0])
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error { return c.list() },
	}
	all := false
	rm := &cobra.Command{
		Use:   "rm [ID...]",
		Short: "Forget answers",
		RunE:  func(_ *cobra.Command, ids []string) error { return c.remove(ids, all) },
	}
	rm.Flags().BoolVar(&all, "all", false, "forget every answer")
	cmd.AddCommand(rm)
	return cmd
}

// row is an answer as JSON has it.
type row struct {
	ID    string        `json:"id"`
	Scope answers.Scope `json:"scope"`
	answers.Answer
}

func (c Commands) list() error {
	store, err := c.Store()
	if err != nil {
		return err
	}
	list, err := store.List()
	if err != nil {
		fmt.Fprintln(c.Stderr, "sandbox: "+format.Shown(err.Error())) // the others stand
	}
	if c.JSON() {
		rows := make([]row, len(list))
		for i, a := range list {
			rows[i] = row{a.ID(), a.Scope(), a}
		}
		return c.Out.JSON(rows)
	}
	if len(list) == 0 {
		fmt.Fprintln(c.Stderr, "No answers are kept.")
		return nil
	}
	return c.Out.Table(func(w io.Writer) {
		fmt.Fprintln(w, "ID\tSINCE\tANSWER\tFOR\tWHAT")
		for _, a := range list {
			answer, where := "deny", "always"
			if a.Allow {
				answer = "allow"
			}
			if a.Project != "" {
				where = format.Shown(a.Project)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", a.ID(), a.At.Local().Format(time.DateTime), answer, where, format.Shown(a.Kind+": "+a.Subject))
		}
	})
}

func (c Commands) remove(ids []string, all bool) error {
	if all == (len(ids) > 0) {
		return exit.Usagef("name the answers by the ids that 'sandbox answers' lists, or give --all")
	}
	store, err := c.Store()
	if err != nil {
		return err
	}
	if all {
		list, lerr := store.List()
		if err = lerr; err != nil {
			return err
		}
		for _, a := range list {
			ids = append(ids, a.ID())
		}
	}
	for _, id := range ids {
		rerr := store.Remove(strings.ToLower(id))
		if errors.Is(rerr, fs.ErrNotExist) {
			rerr = fmt.Errorf("no answer has the id %s; 'sandbox answers' lists them", format.Shown(id))
		}
		err = errors.Join(err, rerr)
	}
	return err
}
