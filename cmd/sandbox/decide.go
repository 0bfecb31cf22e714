package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors"
)

func (a *app) approveCommand() *cobra.Command {
	return a.decideCommand("approve", "Let a held operation go on", true)
}

func (a *app) denyCommand() *cobra.Command {
	return a.decideCommand("deny", "Refuse a held operation and roll its step back", false)
}

func (a *app) decideCommand(word, short string, allow bool) *cobra.Command {
	return &cobra.Command{
		Use:   word + " ID",
		Short: short,
		Long:  short + ". 'sandbox pending' lists what waits; the first decision wins.",
		Args:  checkArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.decide(cmd.Context(), actors.DecideRequest{ID: args[0], Allow: allow, By: "cli"})
		},
	}
}

// decide looks for the safeguard in every running session of this user.
func (a *app) decide(ctx context.Context, r actors.DecideRequest) error {
	found := false
	err := a.eachSession(ctx, func(s actors.Service) error {
		list, err := s.Pending(ctx)
		if err != nil {
			return err
		}
		for _, p := range list {
			if p.ID == r.ID {
				found = true
				return s.Decide(ctx, r)
			}
		}
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("nothing with the id %q waits for a decision; 'sandbox pending' lists what does", r.ID)
	}
	return err
}

func (a *app) pendingCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pending",
		Short: "List the operations that wait for a decision",
		Args:  checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := []actors.Pending{}
			err := a.eachSession(cmd.Context(), func(s actors.Service) error {
				list, err := s.Pending(cmd.Context())
				all = append(all, list...)
				return err
			})
			if err != nil || a.flags.json {
				return errors.Join(err, a.jsonIf(err == nil, all))
			}
			if len(all) == 0 {
				fmt.Fprintln(a.stderr, "Nothing waits for a decision.")
				return nil
			}
			return a.table(func(w io.Writer) {
				fmt.Fprintln(w, "ID\tSTEP\tLEFT\tFOLDER\tWHAT")
				for _, p := range all {
					fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", p.ID, p.Step, took(time.Until(p.Deadline)), shown(p.Directory), shown(p.Message))
				}
			})
		},
	}
}

func (a *app) jsonIf(ok bool, v any) error {
	if !ok {
		return nil
	}
	return a.printJSON(v)
}
