package approvals

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

// PolicyCommands make 'sandbox policy'.
type PolicyCommands struct {
	// Out is where results go.
	Out *console.Output
	// Stderr is for people.
	Stderr io.Writer
	// JSON reports whether data is printed as JSON.
	JSON func() bool
	// Places are where the rules for the working folder are.
	Places func() (approval.Places, error)
	// Effect returns an error for a rule that would decide nothing, or under which condition it does.
	Effect func(r approval.Rule) (note string, err error)
	Now    func() time.Time
}

// options are the flags of the commands below.
type options struct {
	scope   string
	dryRun  bool
	since   time.Duration // --for
	why     string
	answers bool
}

// Command is the command with those below it.
func (c PolicyCommands) Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Show, check and change the rules of what commands may read, write, execute, connect to and use keys for",
		Long: "A rule allows, denies or asks; it is the organisation's (" + approval.OrganisationFile + "), the user's, or the project's.\n" +
			"The more specific rule wins, deny wins among equals, and what the organisation denies nobody allows. 'sandbox why' says\n" +
			"which rule decides; docs/policy.md is a tutorial.",
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		c.sub("show", "List the rules, the organisation's first", args(0, 0), "scope answers", c.show),
		c.sub("check", "Say whether the files of the policy can be trusted, and what in them contradicts itself", args(0, 0), "", c.check),
		c.sub("add allow|deny|ask read|write|exec|connect|use SUBJECT", "Add a rule, or put it in the place of one about the same", args(3, 3), "scope dry-run for why", c.add),
		c.sub("remove ID...", "Remove rules of the user's or the project's", args(1, 1000), "dry-run", c.remove),
		c.sub("export", "Write rules to the standard output, as 'import' reads them", args(0, 0), "scope", c.export),
		c.trust(),
		c.sub("import FILE", "Add the rules of a file, and show what that changes", args(1, 1), "scope dry-run for", c.load),
	)
	return cmd
}

func (c PolicyCommands) sub(use, short string, check cobra.PositionalArgs, flags string, run func(o options, args []string) error) *cobra.Command {
	o := options{}
	cmd := &cobra.Command{Use: use, Short: short, Args: check, RunE: func(_ *cobra.Command, args []string) error { return run(o, args) }}
	for name := range strings.FieldsSeq(flags) {
		switch name {
		case "scope":
			cmd.Flags().StringVar(&o.scope, name, "", "whose rules: organisation, `user` or project")
		case "dry-run":
			cmd.Flags().BoolVar(&o.dryRun, name, false, "only say what would change")
		case "for":
			cmd.Flags().DurationVar(&o.since, name, 0, "how long it holds, as 8h; without it, always")
		case "answers":
			cmd.Flags().BoolVar(&o.answers, name, false, "only rules that answers to questions made")
		case "why":
			cmd.Flags().StringVar(&o.why, name, "", "a `note` that is shown with the rule")
		}
	}
	return cmd
}

func args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if len(given) < least || len(given) > most {
			return console.Usagef("%d arguments: the command is '%s'", len(given), cmd.UseLine())
		}
		return nil
	}
}

// files are those of the scope that is named, or all.
func (c PolicyCommands) files(scope string) ([]approval.File, error) {
	p, err := c.Places()
	if err != nil {
		return nil, err
	}
	var files []approval.File
	for _, s := range []approval.Scope{approval.Organisation, approval.User, approval.Project} {
		if scope == "" || scope == string(s) {
			files = append(files, p.File(s))
		}
	}
	if len(files) == 0 {
		return nil, console.Usagef("--scope %q: use organisation, user or project", scope)
	}
	return files, nil
}

// row is a rule as JSON shows it.
type row struct {
	approval.Rule
	Scope approval.Scope `json:"scope"`
	Ended bool           `json:"ended,omitempty"`
}

func (c PolicyCommands) rules(scope string) (rules []approval.Rule, err error) {
	files, err := c.files(scope)
	for _, f := range files {
		list, lerr := f.Load()
		rules, err = append(rules, list...), errors.Join(err, lerr)
	}
	return rules, err
}

func (c PolicyCommands) show(o options, _ []string) error {
	rules, err := c.rules(o.scope)
	if o.answers {
		rules, err = c.answers()
		rules = slices.DeleteFunc(rules, func(r approval.Rule) bool { return o.scope != "" && o.scope != string(r.Scope) })
	}
	rows := make([]row, len(rules))
	for i, r := range rules {
		rows[i] = row{r, r.Scope, r.Ended(c.Now())}
	}
	switch {
	case c.JSON():
		err = errors.Join(err, c.Out.JSON(rows))
	case len(rows) == 0 && err == nil:
		fmt.Fprintln(c.Stderr, map[bool]string{true: "No answers are kept.", false: "The policy has no rules."}[o.answers])
	case len(rows) > 0:
		err = errors.Join(err, c.Out.Table(func(w io.Writer) {
			fmt.Fprintln(w, "ID\tSCOPE\tRULE\tUNTIL\tBY\tWHY")
			for _, r := range rows {
				until := "-"
				if !r.Until.IsZero() {
					until = r.Until.Local().Format(time.DateTime)
				}
				if r.Ended {
					until += " (ended)"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Scope, console.Shown(r.String()), until, console.Shown(r.By), console.Shown(r.Why))
			}
		}))
	}
	return err
}

// checked is what 'check' says of a file.
type checked struct {
	Scope    approval.Scope `json:"scope"`
	File     string         `json:"file"`
	Rules    int            `json:"rules"`
	Missing  bool           `json:"missing,omitempty"`
	Error    string         `json:"error,omitempty"`
	Warnings []string       `json:"warnings,omitempty"`
}

func (c PolicyCommands) check(options, []string) error {
	files, err := c.files("")
	if err != nil {
		return err
	}
	all, bad := []checked{}, false
	for _, f := range files {
		rules, err := f.Load()
		e := checked{Scope: f.Scope, File: f.Path, Rules: len(rules), Warnings: contradictions(rules)}
		if err != nil {
			e.Error, bad = err.Error(), true
		}
		if _, err := os.Lstat(f.Path); errors.Is(err, fs.ErrNotExist) {
			e.Missing = true
		}
		all = append(all, e)
	}
	if c.JSON() {
		err = c.Out.JSON(all)
	} else {
		for _, e := range all {
			state := fmt.Sprintf("%d rules", e.Rules)
			switch {
			case e.Error != "":
				state = "not trusted: " + console.Shown(e.Error)
			case e.Missing:
				state = "no file"
			}
			fmt.Fprintf(c.Out, "%s: %s: %s\n", e.Scope, console.Shown(e.File), state)
			for _, w := range e.Warnings {
				fmt.Fprintln(c.Out, "  "+console.Shown(w))
			}
		}
	}
	if err == nil && bad {
		return &console.Error{Code: console.Failed}
	}
	return err
}

// contradictions are rules about the same thing that say different things.
func contradictions(rules []approval.Rule) (found []string) {
	first := map[string]approval.Rule{}
	for _, r := range rules {
		o, there := first[r.ID]
		switch {
		case !there:
			first[r.ID] = r
		case o.Action != r.Action:
			found = append(found, fmt.Sprintf("%q and %q contradict each other: deny holds, then ask", o, r))
		}
	}
	return found
}

// target is the file that is changed: the project's unless another one is named.
func (c PolicyCommands) target(scope string) (approval.File, error) {
	if scope == "" {
		scope = string(approval.Project)
	}
	files, err := c.files(scope)
	if err != nil {
		return approval.File{}, err
	}
	return files[0], nil
}

func (c PolicyCommands) add(o options, words []string) error {
	f, err := c.target(o.scope)
	if err != nil {
		return err
	}
	now := c.Now()
	r := approval.Rule{
		Action: approval.Action(words[0]), Operation: approval.Operation(words[1]), Subject: words[2],
		Scope: f.Scope, At: now.UTC().Truncate(time.Second), By: "cli", Why: o.why,
	}
	if r.Until, err = until(now, o.since); err != nil {
		return err
	}
	if r.Operation.OfPaths() && !strings.HasPrefix(r.Subject, "~/") {
		if r.Subject, err = filepath.Abs(r.Subject); err != nil {
			return err
		}
	}
	if r, err = r.Checked(f.Home); err != nil {
		return console.Usage(err)
	}
	note, err := c.Effect(r)
	if err != nil {
		return err
	}
	if err := c.change(f, o.dryRun, []approval.Rule{r}); err != nil {
		return err
	}
	if note != "" {
		fmt.Fprintln(c.Stderr, "sandbox: "+note)
	}
	return nil
}

// until is when a rule ends that holds for so long; the zero time is never.
func until(now time.Time, since time.Duration) (end time.Time, err error) {
	switch {
	case since < 0:
		err = console.Usagef("--for %s: give a time that is still to come, as 8h", since)
	case since > 0:
		end = now.UTC().Add(since).Truncate(time.Second)
	}
	return end, err
}

func (c PolicyCommands) load(o options, words []string) error {
	f, err := c.target(o.scope)
	if err != nil {
		return err
	}
	file, err := os.Open(words[0])
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, approval.MaxBytes+1))
	if err != nil {
		return err
	}
	rules, err := f.Import(text)
	if err != nil {
		return fmt.Errorf("%s: %w", console.Shown(words[0]), err)
	}
	end, err := until(c.Now(), o.since)
	if err != nil {
		return err
	}
	for _, r := range rules {
		if _, lerr := c.Effect(r); lerr != nil {
			err = errors.Join(err, lerr)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w; take it out of the file", console.Shown(words[0]), err)
	}
	for i, r := range rules {
		if o.since > 0 && (r.Until.IsZero() || r.Until.After(end)) {
			rules[i].Until = end
		}
	}
	return c.change(f, o.dryRun, rules)
}

// change puts the rules into the file, and says what that changes.
func (c PolicyCommands) change(f approval.File, dryRun bool, rules []approval.Rule) error {
	var told []string
	err := update(f, dryRun, c.Now(), func(old []approval.Rule) ([]approval.Rule, error) {
		told = nil
		for _, r := range rules {
			before := slices.IndexFunc(old, func(o approval.Rule) bool { return o.ID == r.ID })
			if before >= 0 {
				if old[before].Action == r.Action && old[before].Until.Equal(r.Until) && old[before].Why == r.Why {
					continue
				}
				told = append(told, "- "+old[before].Explain())
				old = slices.Delete(old, before, before+1)
			}
			told = append(told, "+ "+r.Explain())
			old = append(old, r)
		}
		return old, nil
	})
	return c.tell(told, dryRun, err)
}

func (c PolicyCommands) remove(o options, ids []string) error {
	files, err := c.files("")
	if err != nil {
		return err
	}
	var told []string
	for _, id := range ids {
		i := slices.IndexFunc(files, func(f approval.File) bool {
			rules, _ := f.Load() // of one that cannot be read, 'check' tells
			return slices.ContainsFunc(rules, func(r approval.Rule) bool { return r.ID == id })
		})
		if i < 0 {
			err = errors.Join(err, fmt.Errorf("no rule has the id %s; 'sandbox policy show' lists them", console.Shown(id)))
			continue
		}
		err = errors.Join(err, update(files[i], o.dryRun, c.Now(), func(old []approval.Rule) ([]approval.Rule, error) {
			return slices.DeleteFunc(old, func(r approval.Rule) bool {
				if r.ID == id {
					told = append(told, "- "+r.Explain())
				}
				return r.ID == id
			}), nil
		}))
	}
	return c.tell(told, o.dryRun, err)
}

// update is [approval.File.Update], or only asks what it would do.
func update(f approval.File, dryRun bool, now time.Time, change func([]approval.Rule) ([]approval.Rule, error)) error {
	if !dryRun {
		return f.Update(now, change)
	}
	rules, err := f.Load()
	if err == nil {
		_, err = change(rules)
	}
	return err
}

func (c PolicyCommands) warn(err error) {
	fmt.Fprintln(c.Stderr, "sandbox: "+console.Shown(err.Error()))
}

func (c PolicyCommands) tell(lines []string, dryRun bool, err error) error {
	for _, l := range lines {
		fmt.Fprintln(c.Out, console.Shown(l))
	}
	switch {
	case err != nil:
		return err
	case len(lines) == 0:
		fmt.Fprintln(c.Stderr, "Nothing changes.")
	case dryRun:
		fmt.Fprintln(c.Stderr, "Nothing was changed (--dry-run).")
	}
	return nil
}

func (c PolicyCommands) export(o options, _ []string) error {
	rules, err := c.rules(o.scope)
	if err != nil {
		return err
	}
	return approval.Export(c.Out, rules)
}
