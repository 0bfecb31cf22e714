package console

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// EntryStatus is how the step ended, in a word or two.
func EntryStatus(e undolog.Entry) string {
	switch {
	case e.Damaged != "":
		return "damaged"
	case e.Unprotected:
		return "unprotected"
	case e.Status != "completed" && e.Status != "":
		return e.Status
	case e.NotKeptCount > 0:
		return "partly kept"
	case e.ExitCode != nil && *e.ExitCode != 0:
		return "exit " + strconv.Itoa(*e.ExitCode)
	}
	return "ok"
}

// StepCommands lists the commands of a step that had several, with their times from
// its beginning.
func StepCommands(w io.Writer, e undolog.Entry) {
	for _, c := range e.Commands {
		status := c.Status
		if c.ExitCode != nil && c.Status == "completed" {
			status = "exit " + strconv.Itoa(*c.ExitCode)
		}
		from := c.StartedAt.Sub(e.StartedAt)
		fmt.Fprintf(w, "  +%s to +%s, %s: %s\n", Took(max(from, 0)), Took(max(from, 0)+max(c.EndedAt.Sub(c.StartedAt), 0)), status, OneLine(c.Command, 80))
	}
	if n := e.CommandCount - len(e.Commands); n > 0 {
		fmt.Fprintf(w, "  ... and %d more\n", n)
	}
}

// Barriers names the first path that was changed from outside.
func Barriers(list []undolog.Barrier) string {
	n, first := 0, ""
	for _, b := range list {
		n += len(b.Paths)
		if first == "" && len(b.Paths) > 0 {
			first = b.Paths[0]
		}
	}
	text := "changed outside: " + Shown(first)
	if n > 1 {
		text += fmt.Sprintf(" and %d more", n-1)
	}
	return text
}

// changeMark is the letter of a change, as version control shows it.
func changeMark(p undolog.Affected) string {
	switch p.Change {
	case "created":
		return "A"
	case "deleted":
		return "D"
	case "renamed":
		return "R"
	case "metadata":
		return "m"
	}
	return "M"
}

// Changes lists changed paths, at most the given number of them; 0: all.
func Changes(w io.Writer, paint Painter, list []undolog.Affected, most int) {
	for i, p := range list {
		if most > 0 && i == most {
			fmt.Fprintf(w, "  ... and %d more\n", len(list)-i)
			return
		}
		mark := changeMark(p)
		name := Shown(p.Path)
		if p.Type == "dir" {
			name += "/"
		}
		line := mark + " " + name
		switch mark {
		case "A":
			line = paint.Green(line)
		case "D":
			line = paint.Red(line)
		}
		fmt.Fprintln(w, "  "+line)
	}
}

// Recovery is what opening a log has repaired.
func Recovery(r undolog.Recovery) string {
	switch {
	case r.CompletedRollback && len(r.Edited) > 0:
		return fmt.Sprintf("sandbox: an undo that had been interrupted was completed; %s that changed since stay as they are: %s. 'sandbox undo --force' puts them back, too", Paths(len(r.Edited)), someOf(r.Edited))
	case r.CompletedRollback:
		return "sandbox: an undo that had been interrupted was completed"
	case r.Unprotected:
		return fmt.Sprintf("sandbox: step %d (%s) was interrupted; it had outgrown the limit and could not be rolled back", r.StepID, OneLine(r.Command, 60))
	case r.Kept && len(r.Edited) > 0:
		return fmt.Sprintf("sandbox: step %d (%s) was interrupted; it stays as it is, because %s of it changed since: %s. 'sandbox undo' takes it back, and with --force what was changed since, too",
			r.StepID, OneLine(r.Command, 60), Paths(len(r.Edited)), someOf(r.Edited))
	case r.Kept:
		return fmt.Sprintf("sandbox: step %d (%s) was interrupted; it stays as it is: 'sandbox undo' takes it back", r.StepID, OneLine(r.Command, 60))
	case r.StepID == 0:
		return "sandbox: an interrupted step was put aside: " + strings.Join(r.Problems, "; ")
	}
	return fmt.Sprintf("sandbox: step %d (%s) was interrupted; %s put back as before it ('sandbox redo' brings it back)", r.StepID, OneLine(r.Command, 60), Paths(r.Restored))
}

// someOf names the first of paths.
func someOf(paths []string) string {
	const most = 3
	var b strings.Builder
	for i, p := range paths[:min(len(paths), most)] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(Shown(p))
	}
	if n := len(paths) - most; n > 0 {
		fmt.Fprintf(&b, " and %d more", n)
	}
	return b.String()
}

// Interruption says what a kill has cut, and which commands take it up.
func Interruption(i undolog.Interruption) string {
	what := fmt.Sprintf("step %d", i.StepID)
	if i.Command != "" {
		what += " (" + OneLine(i.Command, 60) + ")"
	}
	switch i.Kind {
	case "step":
		return "sandbox: " + what + " was interrupted, and the folder is as it left it: 'sandbox undo' takes it back, 'sandbox redo' lets it be; the next 'sandbox run' takes it back, too"
	case "redo":
		return "sandbox: the folder is half redone, because the redo of " + what + " was interrupted: 'sandbox redo' completes it, as does the next 'sandbox run'"
	}
	return "sandbox: the folder is half undone, because the " + i.Kind + " of " + what + " was interrupted: 'sandbox undo' completes it, as does the next 'sandbox run'"
}
