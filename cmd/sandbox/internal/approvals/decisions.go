package approvals

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/messages"
)

// DecisionCommands make 'sandbox audit'.
type DecisionCommands struct {
	// Out is where results go, Stderr is for people.
	Out    *console.Output
	Stderr io.Writer
	// JSON reports whether data is printed as JSON.
	JSON func() bool
	// Folder is the working folder with its undo directory.
	Folder func() (api.Directory, error)
	Now    func() time.Time
}

// request is what was asked for.
type request struct {
	session string // "": of all
	since   string
	verify  bool
	hash    string
}

// Command is the command.
func (c DecisionCommands) Command() *cobra.Command {
	r := request{}
	cmd := &cobra.Command{
		Use:   "audit [SESSION]",
		Short: "Show what was decided in this folder, by whom and by which rule, oldest first",
		Long: "Each question that a session put (a safeguard, a destination of the network) is recorded with its answer, who gave it\n" +
			"and for whom, and each destination that a rule of the network allowed or denied, the first time in a session.\n" +
			"SESSION is an id, or the beginning of one; without it, all sessions of the folder are shown.\n\n" +
			"Each line of the log holds the hash of the one before it. --verify finds lines that were changed, moved or cut away; its\n" +
			"exit status is then 1. Keep the hash that it prints elsewhere: --contains HASH tells later whether all up to there is\n" +
			"as it was.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return console.Usagef("one session at a time, not %d", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				r.session = args[0]
			}
			return c.run(r)
		},
	}
	cmd.Flags().StringVar(&r.since, "since", "", "only what was decided since this `time`: 2h, 3d, 2026-11-23 or 2026-11-23T15:04:05Z")
	cmd.Flags().BoolVar(&r.verify, "verify", false, "show nothing; look whether the log is as it was written")
	cmd.Flags().StringVar(&r.hash, "contains", "", "verify, and look whether this `hash` of an earlier verification is in the log")
	return cmd
}

func (c DecisionCommands) run(r request) error {
	since, err := parseSince(r.since, c.Now())
	if err != nil {
		return console.Usage(err)
	}
	d, err := c.Folder()
	if err != nil {
		return err
	}
	path := filepath.Join(d.UndoDir, approval.AuditFile)
	if r.verify || r.hash != "" {
		return c.verify(path, strings.ToLower(r.hash))
	}
	var lines []json.RawMessage
	known := r.session == ""
	report, err := approval.ChainFile(path, "", func(l approval.ChainLine) error {
		if e := parse(l.Raw); e != nil && strings.HasPrefix(e.Session, r.session) {
			known = true
			if !e.At.Before(since) {
				lines = append(lines, append(json.RawMessage(nil), l.Raw...))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !known {
		return fmt.Errorf("no session of %s has an id that begins with %q; 'sandbox audit' lists all", console.Shown(d.Path), r.session)
	}
	if err := c.show(lines, d.Path); err != nil {
		return err
	}
	if n := len(report.Problems); n > 0 {
		fmt.Fprintf(c.Stderr, "The log was damaged at %d places: 'sandbox audit --verify' says where.\n", n)
	}
	return nil
}

// entry is a line of any kind.
type entry struct {
	messages.Decision
	Isolation   string                  `json:"isolation"`
	Network     string                  `json:"network"`
	Directories []string                `json:"directories"`
	Problems    []approval.ChainProblem `json:"problems"`
}

// parse returns nil for what is no line of the log.
func parse(raw []byte) *entry {
	e := &entry{}
	if json.Unmarshal(raw, e) != nil {
		return nil
	}
	return e
}

func (c DecisionCommands) show(lines []json.RawMessage, folder string) error {
	if c.JSON() {
		return c.Out.JSON(api.OrEmpty(lines))
	}
	if len(lines) == 0 {
		fmt.Fprintln(c.Stderr, "Nothing was decided in "+console.Shown(folder)+".")
		return nil
	}
	return c.Out.Table(func(w io.Writer) {
		fmt.Fprintln(w, "WHEN\tSESSION\tSTEP\tDECISION\tBY\tWHAT")
		for _, raw := range lines {
			e := parse(raw)
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", e.At.Local().Format(time.DateTime), console.Shown(decisionsShort(e.Session)), e.step(),
				console.Shown(e.Decision.Decision), console.Shown(e.by()), console.Shown(e.what()))
		}
	})
}

// decisionsShort is how much of a session's id is shown.
func decisionsShort(id string) string { return id[:min(len(id), 8)] }

func (e *entry) step() string {
	if e.Step == 0 {
		return "-"
	}
	return strconv.FormatInt(e.Step, 10)
}

func (e *entry) by() string {
	switch {
	case e.By == messages.ByRule && e.Rule != "":
		return e.Rule
	case e.By == "":
		return "-"
	}
	return e.By
}

// mostCommand bounds a command in the table.
const mostCommand = 60

func (e *entry) what() string {
	switch e.Kind {
	case approval.AuditKindSession:
		return strings.TrimSpace("session: isolation " + e.Isolation + ", network " + orDisabled(e.Network))
	case approval.AuditKindDamage:
		return fmt.Sprintf("the log was found damaged at %d places", len(e.Problems))
	}
	what := e.Kind
	switch {
	case e.Message != "":
		what += ": " + e.Message
	case e.Count > 0:
		what += ": " + console.Paths(e.Count)
	}
	if e.Command != "" {
		what += " (" + console.OneLine(e.Command, mostCommand) + ")"
	}
	return what
}

func orDisabled(network string) string {
	if network == "" {
		return "disabled"
	}
	return network
}

func (c DecisionCommands) verify(path, hash string) error {
	var noted []approval.ChainProblem
	report, err := approval.ChainFile(path, hash, func(l approval.ChainLine) error {
		if e := parse(l.Raw); e != nil && e.Kind == approval.AuditKindDamage {
			noted = append(noted, approval.ChainProblem{Line: l.Number, What: "the session " + e.Session + " found the log damaged before this line"})
		}
		return nil
	})
	if err != nil {
		return err
	}
	report.Problems = append(report.Problems, noted...)
	if hash != "" && !report.Contains {
		report.Problems = append(report.Problems, approval.ChainProblem{Line: report.Lines, What: "no line has the hash " + hash + ": what was there when it was printed was changed"})
	}
	if c.JSON() {
		if err := c.Out.JSON(report); err != nil {
			return err
		}
	} else {
		c.tell(report)
	}
	if len(report.Problems) > 0 {
		return fmt.Errorf("%s is not as it was written; to keep it as evidence and begin a new one, move it and its .head away", path)
	}
	return nil
}

func (c DecisionCommands) tell(r approval.ChainReport) {
	for _, p := range r.Problems {
		fmt.Fprintf(c.Out, "line %d: %s\n", p.Line, console.Shown(p.What))
	}
	switch {
	case len(r.Problems) > 0:
	case r.Lines == 0:
		fmt.Fprintln(c.Out, "Nothing was decided yet.")
	case r.Unchained > 0:
		fmt.Fprintf(c.Out, "%d lines are as they were written; the first %d, of an older version, have no hashes of their own.\nHash of the last: %s\n", r.Lines, r.Unchained, r.Hash)
	default:
		fmt.Fprintf(c.Out, "%d lines are as they were written.\nHash of the last: %s\n", r.Lines, r.Hash)
	}
}

// parseSince is the moment that a person means: so long ago, or a date.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.AddDate(0, 0, -int(n)), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("--since %q: give a time as 2h, 3d, 2026-11-23 or 2026-11-23T15:04:05Z", text)
}
