package configure

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/agents"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Commands make 'sandbox config text' and 'sandbox config write'.
type Commands struct {
	Stdin  io.Reader
	Out    *console.Output
	Stderr io.Writer // for people
	// JSON reports whether data is printed as JSON.
	JSON func() bool
	// Files are where the organisation's and the user's file are, the latter possibly named by a flag.
	Files func() config.Sources
	// Folder is the working folder, in which the project's file is.
	Folder func() (string, error)
	// Mode is that of a file that is made.
	Mode func() fs.FileMode
	Now  func() time.Time
}

// Levels are the names of the levels that have files.
var Levels = map[string]config.Level{"organisation": config.Organisation, "user": config.User, "project": config.Project}

// levelFlag adds --level.
func levelFlag(cmd *cobra.Command, level *string) {
	cmd.Flags().StringVar(level, "level", "user", "whose file: organisation, user or project")
	// It fails only for a flag that is not there.
	_ = cmd.RegisterFlagCompletionFunc("level", cobra.FixedCompletions([]string{"organisation", "user", "project"}, cobra.ShellCompDirectiveNoFileComp))
}

// Text is the command that prints a file.
func (c Commands) Text() *cobra.Command {
	level := ""
	cmd := &cobra.Command{
		Use:   "text",
		Short: "Print the configuration file of a level as it is",
		Long: "Print the configuration file of a level as it is. With --json also whether it can be changed, and what is wrong\n" +
			"with it.",
		RunE: func(*cobra.Command, []string) error { return c.text(level) },
	}
	levelFlag(cmd, &level)
	return cmd
}

// Write is the command that puts a text into a file's place.
func (c Commands) Write() *cobra.Command {
	w := writing{}
	cmd := &cobra.Command{
		Use:   "write FILE",
		Short: "Put a text in the place of a level's configuration file, if nothing is wrong with it",
		Long: "Put the text of FILE (- for the standard input) in the place of a level's configuration file, if nothing is wrong\n" +
			"with it. A copy of the old file stays beside it. What runs already keeps its configuration.\n\n" +
			"--print shows what would change in the file, and which settings would have other values.",
		RunE: func(_ *cobra.Command, args []string) error { return c.write(w, args[0]) },
	}
	levelFlag(cmd, &w.level)
	cmd.Flags().BoolVar(&w.print, "print", false, "only print what would change")
	cmd.Flags().StringVar(&w.expect, "expect", "", "do just what was previewed: the digest that --print --json said")
	return cmd
}

// at finds a level, and its file.
func (c Commands) at(name string) (place, error) {
	level, ok := Levels[name]
	if !ok {
		return place{}, console.Usagef("--level: %q is not one of organisation, user, project", name)
	}
	p := place{level: level, files: c.Files()}
	var err error
	if p.folder, err = c.Folder(); err != nil && level == config.Project {
		return p, err
	}
	if p.file() == "" {
		return p, errors.New("this user has no configuration directory")
	}
	return p, nil
}

// Text is what 'config text' prints as JSON.
type Text struct {
	Level string `json:"level"`
	File  string `json:"file"`
	There bool   `json:"there"`
	Text  string `json:"text"`
	// Digest names the text.
	Digest   string    `json:"digest"`
	Editable bool      `json:"editable"`
	Why      string    `json:"why,omitempty"` // it is not
	Mistakes []Mistake `json:"mistakes"`
}

// Mistake is one thing that is wrong with a text; a line or column of 0 is not known.
type Mistake struct {
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

func (c Commands) text(level string) error {
	p, err := c.at(level)
	if err != nil {
		return err
	}
	text, there, err := p.read()
	if err != nil && !c.JSON() {
		return err
	}
	if !c.JSON() {
		if !there {
			fmt.Fprintf(c.Stderr, "%s is not there\n", console.Shown(p.file()))
		}
		err = c.Out.Contents(func(w io.Writer) error { _, err := w.Write(text); return err })
		return err
	}
	out := Text{Level: p.level.String(), File: p.file(), There: there, Text: string(text), Digest: digest(text), Mistakes: []Mistake{}}
	if out.Why = p.fixed(text, err); out.Why != "" {
		if err != nil || !valid(text) {
			out.Text = ""
		}
		return c.Out.JSON(out)
	}
	out.Editable = true
	if there {
		if _, err := p.whole(text); err != nil {
			out.Mistakes = mistakes(err)
		}
	}
	return c.Out.JSON(out)
}

// Written is what 'config write' prints as JSON.
type Written struct {
	Level    string    `json:"level"`
	File     string    `json:"file"`
	Mistakes []Mistake `json:"mistakes"` // because of which nothing is done
	// Was names the text that is there, as Text.Digest.
	Was string `json:"was"`
	// Digest names the change, for --expect.
	Digest string `json:"digest,omitempty"`
	// Change is "none", "create" or "modify".
	Change   string   `json:"change,omitempty"`
	Diff     string   `json:"diff,omitempty"`
	Cut      bool     `json:"cut,omitempty"`
	Effects  []Effect `json:"effects"`
	Warnings []string `json:"warnings"`
	// Backup is the copy of the old text, once the file is written.
	Backup string `json:"backup,omitempty"`
}

// Effect is a setting that has another value because of a change.
type Effect struct {
	Key    string `json:"key"`
	Before string `json:"before"` // as in the file
	After  string `json:"after"`
}

type writing struct {
	level, expect string
	print         bool
}

// maxText bounds what is read from the standard input.
const maxText = 1 << 20

func (c Commands) source(file string) ([]byte, error) {
	if file != "-" {
		text, _, err := hostfs.ReadRegular(file, maxText, true)
		return text, err
	}
	text, err := io.ReadAll(io.LimitReader(c.Stdin, maxText+1))
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("the text has more than %d MiB", maxText>>20)
	}
	return text, err
}

func (c Commands) write(w writing, from string) error {
	p, err := c.at(w.level)
	if err != nil {
		return err
	}
	text, err := c.source(from)
	if err != nil {
		return err
	}
	old, there, err := p.read()
	if why := p.fixed(old, err); why != "" {
		return errors.New(why)
	}
	out := Written{Level: p.level.String(), File: p.file(), Was: digest(old), Mistakes: []Mistake{}, Effects: []Effect{}, Warnings: []string{}}
	next, err := p.whole(text)
	if err != nil {
		if out.Mistakes = mistakes(err); c.JSON() {
			return errors.Join(c.Out.JSON(out), &console.Error{Code: console.Failed})
		}
		return err
	}
	out.Effects = p.effects(old, there, next)
	out.Warnings = append(out.Warnings, next.problems...)
	steps, err := agents.Plan([]agents.Part{agents.Whole("the configuration", p.file(), append([]byte{}, text...))}, p.within(), false)
	if err != nil {
		return err
	}
	preview, err := agents.PreviewOf(steps)
	if err != nil {
		return err
	}
	if w.expect != "" && w.expect != preview.Digest {
		return &console.Error{Code: console.Barrier, Err: errors.New("the file was changed since the preview, or another text was previewed; look at it again")}
	}
	out.Digest, out.Change, out.Diff, out.Cut = preview.Digest, preview.Changes[0].Change, preview.Changes[0].Diff, preview.Changes[0].Cut
	if !w.print {
		done, err := steps[0].Pinned().Add(p.within(), c.Mode(), c.Now())
		if err != nil {
			return stale(err)
		}
		out.Backup = done.Backup
	}
	return c.say(out, w.print)
}

// stale gives what somebody else has changed meanwhile a status of its own.
func stale(err error) error {
	if errors.Is(err, agents.ErrStale) {
		return &console.Error{Code: console.Barrier, Err: fmt.Errorf("%w; look at it again", err)}
	}
	return err
}

// say prints what was done, or would be.
func (c Commands) say(out Written, preview bool) error {
	if c.JSON() {
		return c.Out.JSON(out)
	}
	if preview {
		if err := c.Out.Contents(func(w io.Writer) error { _, err := io.WriteString(w, out.Diff); return err }); err != nil {
			return err
		}
	}
	for _, e := range out.Effects {
		fmt.Fprintf(c.Stderr, "%s: %s -> %s\n", e.Key, console.Shown(e.Before), console.Shown(e.After))
	}
	for _, warning := range out.Warnings {
		fmt.Fprintln(c.Stderr, "warning: "+console.Shown(warning))
	}
	switch {
	case out.Change == "none":
		fmt.Fprintf(c.Stderr, "%s: nothing to do\n", console.Shown(out.File))
	case preview:
	case out.Backup != "":
		fmt.Fprintf(c.Stderr, "%s: written; what it was is in %s\n", console.Shown(out.File), console.Shown(out.Backup))
	default:
		fmt.Fprintf(c.Stderr, "%s: made\n", console.Shown(out.File))
	}
	return nil
}
