package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
	"github.com/codeagent/sandbox/messages"
)

func (a *app) approveCommand() *cobra.Command {
	return a.decideCommand("approve", "Let a held operation go on", true)
}

func (a *app) denyCommand() *cobra.Command {
	return a.decideCommand("deny", "Refuse a held operation and roll its step back; a connection, a read or a protected file is only refused", false)
}

func (a *app) decideCommand(word, short string, allow bool) *cobra.Command {
	scope, since := "", time.Duration(0)
	cmd := &cobra.Command{
		Use:   word + " ID",
		Short: short,
		Long: short + ". 'sandbox pending' lists what waits; the first decision wins.\n\n" +
			"A decision about the network, or about a path, can stand for longer than the session, as a rule of the policy:\n" +
			"--scope project keeps it for the working folder, --scope user for all that you run, and --for 8h ends it.\n" +
			"'sandbox answers' lists what is kept.",
		Args: checkArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := approval.ParseScope(scope, approval.Session); err != nil {
				return console.Usagef("--%s", err)
			}
			if since < 0 || since > 0 && scope == string(approval.Once) {
				return console.Usagef("--for %s: give a time that is still to come, for an answer that is kept", since)
			}
			return a.decide(cmd.Context(), api.DecideRequest{ID: args[0], Allow: allow, Scope: scope, For: since, By: "cli"})
		},
	}
	cmd.Flags().StringVar(&scope, "scope", "", "where it stands, about the network or a path: `once`, session, project or user (default session)")
	cmd.Flags().DurationVar(&since, "for", 0, "how long it stands there, as 8h; without it, always")
	return cmd
}

// decide decides the safeguard in the running session of this user that has it:
// ids are a session's own, so that where two have it the folder must be named.
func (a *app) decide(ctx context.Context, r api.DecideRequest) error {
	waiting, err := a.waiting(ctx, r.ID)
	switch {
	case err != nil:
		return err
	case len(waiting) > 1:
		return console.Usagef("%s waits in several sessions; name the folder with --working-dir: %s", r.ID, console.Shown(strings.Join(waiting, ", ")))
	}
	found := false
	err = a.launch.EachSession(ctx, func(s api.Service) error {
		here, err := a.meant(ctx, s)
		if len(waiting) == 1 {
			here, err = holds(ctx, s, waiting[0])
		}
		if !here || err != nil {
			return err
		}
		err = s.Decide(ctx, r)
		if errors.Is(err, messages.ErrNoSafeguard) && !errors.Is(err, messages.ErrDecided) {
			return nil
		}
		found = true
		return err // perhaps that somebody else was faster
	})
	if err == nil && !found {
		err = fmt.Errorf("nothing with the id %q waits for a decision; 'sandbox pending' lists what does", r.ID)
	}
	return err
}

// waiting lists the folders of the sessions in which the safeguard waits.
func (a *app) waiting(ctx context.Context, id string) (folders []string, err error) {
	err = a.launch.EachSession(ctx, func(s api.Service) error {
		here, err := a.meant(ctx, s)
		if !here || err != nil {
			return err
		}
		list, err := s.Pending(ctx)
		for _, p := range list {
			if p.ID == id {
				folders = append(folders, p.Directory)
			}
		}
		return err
	})
	return folders, err
}

// meant reports whether the session has a folder that was named, or none was.
func (a *app) meant(ctx context.Context, s api.Service) (bool, error) {
	named, err := a.launch.Named()
	if err != nil {
		return false, err
	}
	folders, err := foldersOf(ctx, s)
	return err == nil && named(folders), err
}

// holds reports whether the folder is one of the session's.
func holds(ctx context.Context, s api.Service, folder string) (bool, error) {
	folders, err := foldersOf(ctx, s)
	return slices.ContainsFunc(folders, func(f string) bool { return launch.SameFolder(f, folder) }), err
}

func foldersOf(ctx context.Context, s api.Service) (folders []string, err error) {
	st, err := s.Status(ctx)
	for _, d := range st.Directories {
		folders = append(folders, d.Path)
	}
	return folders, err
}
