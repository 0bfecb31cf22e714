package format

import (
	"fmt"
	"io"
	"strconv"

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
	case r.CompletedRollback:
		return "sandbox: an undo that had been interrupted was completed"
	case r.Unprotected:
		return fmt.Sprintf("sandbox: step %d (%s) was interrupted; it had outgrown the limit and could not be rolled back", r.StepID, OneLine(r.Command, 60))
	}
	return fmt.Sprintf("sandbox: step %d (%s) was interrupted; %s put back as before it", r.StepID, OneLine(r.Command, 60), Paths(r.Restored))
}
