package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/format"
)

func (a *app) inspectCommand() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "inspect [SESSION]",
		Short: "Show the live parts of a running session",
		Long: "Show the live parts of a running session: their state, queues, restarts and held operations.\n" +
			"Without SESSION: the one that has the working folder open, or the only one that runs.",
		Args: checkArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.inspected(cmd.Context(), args)
			if err != nil {
				return err
			}
			defer s.Close(cmd.Context())
			if watch {
				return a.watch(cmd.Context(), s)
			}
			tree, err := s.Inspect(cmd.Context())
			if err != nil {
				return err
			}
			if a.flags.json {
				return a.out.JSON(tree)
			}
			return a.out.Table(func(w io.Writer) { writeTree(w, tree) })
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "keep showing, as a full-screen view (q to leave)")
	return cmd
}

// inspected finds the session to look into.
func (a *app) inspected(ctx context.Context, args []string) (actors.Service, error) {
	list, err := a.sessions()
	if err != nil {
		return nil, err
	}
	if len(args) == 1 {
		for _, info := range list {
			if info.Session == args[0] {
				return actors.Dial(ctx, info.Socket)
			}
		}
		return nil, fmt.Errorf("no session %q is running: 'sandbox ps' lists them", args[0])
	}
	dirs, err := a.directories(true)
	if err == nil {
		for _, info := range list {
			if slices.Contains(info.Directories, dirs[0].Path) {
				return actors.Dial(ctx, info.Socket)
			}
		}
	}
	if len(list) == 1 && len(a.flags.dirs) == 0 {
		return actors.Dial(ctx, list[0].Socket)
	}
	if len(list) == 0 {
		return nil, errors.New("no session is running")
	}
	return nil, fmt.Errorf("no running session has this folder open: 'sandbox ps' lists the %d that run", len(list))
}

// writeTree prints the tree with tabs between the columns.
func writeTree(w io.Writer, t actors.Tree) {
	fmt.Fprintln(w, "PART\tSTATE\tQUEUE\tRESTARTS\tHOLDS\tIN FLIGHT\t")
	writeNode(w, t.Root, "", "")
}

func writeNode(w io.Writer, n actors.TreeNode, lead, leadBelow string) {
	var facts []string
	for _, k := range slices.Sorted(maps.Keys(n.Facts)) {
		facts = append(facts, k+"="+n.Facts[k])
	}
	if n.LastError != "" {
		facts = append(facts, "last error: "+n.LastError)
	}
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%s\n",
		lead+n.Name, n.State, n.Mailbox, n.Restarts, n.Holds, format.Bytes(n.BytesHeld), format.Shown(strings.Join(facts, " ")))
	for i, c := range n.Children {
		if i == len(n.Children)-1 {
			writeNode(w, c, leadBelow+"└─ ", leadBelow+"   ")
		} else {
			writeNode(w, c, leadBelow+"├─ ", leadBelow+"│  ")
		}
	}
}
