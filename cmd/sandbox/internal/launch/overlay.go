package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
)

// OverlayCommands make 'sandbox overlay'.
type OverlayCommands struct {
	// Out is where results go.
	Out *console.Output
	// Stderr is for people.
	Stderr io.Writer
	// JSON reports whether data is printed as JSON.
	JSON func() bool
	// Dir is where overlays are kept.
	Dir func() (string, error)
}

// Command is the command with those below it.
func (c OverlayCommands) Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "overlay",
		Short: "Show what was written to caches inside, put it into the host's, or throw it away",
		Long: "In a jail, the caches of compilers and package managers, and where they install programs for a user, are overlays: what is written there is kept beside the\n" +
			"host's own directories, which stay as they are. So are the directories that --overlay names.\n\n" +
			"A session that runs beside another one has overlays of its own, in another slot. A PATH names an overlay by the host's\n" +
			"directory; without one, all are meant.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		c.sub("ls", "List the overlays, and how much was written to each", false, c.list),
		c.sub("diff [PATH...]", "List in what the overlays differ from the host's directories", true, c.diff),
		c.sub("apply PATH...", "Put what was written into the host's directory, and empty the overlay", true, c.apply),
		c.sub("discard [PATH...]", "Throw away what was written", true, c.discard),
	)
	return cmd
}

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return console.Usagef("unexpected argument %q", args[0])
	}
	return nil
}

// selection is which overlays a command is about.
type selection struct {
	paths []string
	slot  int // -1: every one
}

func (c OverlayCommands) sub(use, short string, args bool, run func(s selection) error) *cobra.Command {
	s := selection{slot: -1}
	cmd := &cobra.Command{
		Use: use, Short: short, Args: noArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			s.paths = args
			if strings.HasPrefix(use, "apply ") && len(args) == 0 {
				return console.Usagef("name the directories: what runs inside may have written anything; look with 'sandbox overlay diff'")
			}
			return run(s)
		},
	}
	if args {
		cmd.Args = nil
		cmd.Flags().IntVar(&s.slot, "slot", -1, "only the overlays of this `number`; -1: of all")
	}
	return cmd
}

// entries are the overlays that are meant. It is an error if a path has none.
func (c OverlayCommands) entries(s selection) ([]places.Entry, error) {
	dir, err := c.Dir()
	if err != nil {
		return nil, err
	}
	all, err := places.Store{Dir: dir}.List()
	if err != nil {
		return nil, err
	}
	var out []places.Entry
	found := make([]bool, len(s.paths))
	for _, e := range all {
		meant := len(s.paths) == 0
		for i, p := range s.paths {
			if samePath(p, e.Path) {
				meant, found[i] = true, true
			}
		}
		if meant && (s.slot < 0 || s.slot == e.Slot) {
			out = append(out, e)
		}
	}
	for i, ok := range found {
		if !ok {
			return nil, &console.Error{Code: console.Failed, Err: fmt.Errorf("%s has no overlay; 'sandbox overlay ls' lists them", console.Shown(s.paths[i]))}
		}
	}
	return out, nil
}

func samePath(given, path string) bool {
	abs, err := filepath.Abs(given)
	if err != nil {
		return false
	}
	if abs == path {
		return true
	}
	real, err := filepath.EvalSymlinks(abs)
	return err == nil && real == path
}

func (c OverlayCommands) list(s selection) error {
	list, err := c.entries(s)
	if err != nil {
		return err
	}
	if c.JSON() {
		return c.Out.JSON(api.OrEmpty(list))
	}
	if len(list) == 0 {
		fmt.Fprintln(c.Stderr, "Nothing was written to an overlay yet.")
		return nil
	}
	return c.Out.Table(func(w io.Writer) {
		fmt.Fprintln(w, "DIRECTORY\tSLOT\tFILES\tWRITTEN\tIN USE")
		for _, e := range list {
			use := "-"
			if e.PID != 0 {
				use = fmt.Sprintf("by process %d", e.PID)
			}
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", console.Shown(e.Path), e.Slot, e.Files, console.Bytes(e.Bytes), use)
		}
	})
}

// difference is what diff prints of one overlay.
type difference struct {
	places.Entry
	Changes []places.Change `json:"changes"`
}

func (c OverlayCommands) diff(s selection) error {
	list, err := c.entries(s)
	if err != nil {
		return err
	}
	var out []difference
	for _, e := range list {
		changes, err := e.Changes()
		if err != nil {
			return err
		}
		out = append(out, difference{e, api.OrEmpty(changes)})
	}
	if c.JSON() {
		return c.Out.JSON(api.OrEmpty(out))
	}
	letters := map[places.Kind]string{places.Added: "A", places.Modified: "M", places.Deleted: "D", places.Replaced: "R"}
	for _, d := range out {
		fmt.Fprintf(c.Out, "%s, slot %d: %d paths\n", console.Shown(d.Path), d.Slot, len(d.Changes))
		for _, change := range d.Changes {
			fmt.Fprintf(c.Out, "  %s %s\n", letters[change.Kind], console.Shown(change.Path))
		}
	}
	return nil
}

// applied is what apply prints of one overlay.
type applied struct {
	places.Entry
	places.Applied
}

func (c OverlayCommands) apply(s selection) error {
	list, err := c.entries(s)
	if err != nil {
		return err
	}
	secrets, err := secrets()
	if err != nil {
		return err
	}
	var out []applied
	for _, e := range list {
		done, err := e.Apply(secrets)
		if err != nil {
			return inUse(e, err)
		}
		out = append(out, applied{e, done})
	}
	if c.JSON() {
		return c.Out.JSON(api.OrEmpty(out))
	}
	for _, a := range out {
		fmt.Fprintf(c.Out, "%s, slot %d: %d paths changed\n", console.Shown(a.Path), a.Slot, a.Applied.Changes)
		for _, skipped := range a.Skipped {
			fmt.Fprintf(c.Out, "  left out %s\n", console.Shown(skipped))
		}
	}
	return nil
}

func (c OverlayCommands) discard(s selection) error {
	list, err := c.entries(s)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := e.Discard(); err != nil {
			return inUse(e, err)
		}
	}
	if c.JSON() {
		return c.Out.JSON(api.OrEmpty(list))
	}
	for _, e := range list {
		fmt.Fprintf(c.Out, "%s, slot %d: threw away %d files, %s\n", console.Shown(e.Path), e.Slot, e.Files, console.Bytes(e.Bytes))
	}
	return nil
}

// inUse says what to do about an overlay that a session has.
func inUse(e places.Entry, err error) error {
	if errors.Is(err, places.ErrInUse) {
		return fmt.Errorf("%s, slot %d: %w; end it with 'sandbox stop'", console.Shown(e.Path), e.Slot, places.ErrInUse)
	}
	return fmt.Errorf("%s, slot %d: %w", console.Shown(e.Path), e.Slot, err)
}

// secrets are the paths at which programs of this user keep secrets.
func secrets() ([]string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	var out []string
	for _, s := range hypervisor.Secrets(os.Getenv, home) {
		out = append(out, s.Path)
	}
	return out, nil
}
