package manual

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Page is the manual page of a command.
func Page(cmd *cobra.Command, day time.Time) []byte {
	p := page{cmd: cmd}
	p.line(".TH %s 1 %s %s %s", quoted(strings.ToUpper(pageName(cmd))), day.Format(time.DateOnly),
		quoted(cmd.Root().Name()), quoted("User Commands"))
	p.section("NAME")
	p.fill(escape(pageName(cmd)) + ` \- ` + escape(cmd.Short))
	p.synopsis()
	p.section("DESCRIPTION")
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	p.prose(long)
	p.commands()
	p.flags("OPTIONS", cmd.NonInheritedFlags())
	p.flags("OPTIONS OF EVERY COMMAND", cmd.InheritedFlags())
	p.examples()
	if !cmd.HasParent() {
		p.statuses()
		p.files()
	}
	p.seeAlso()
	return p.text.Bytes()
}

// pageName is the name of a command's page: its words with hyphens.
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// shown are the commands below cmd that its help shows.
func shown(cmd *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands()), func(c *cobra.Command) bool {
		return !c.IsAvailableCommand() || c.Name() == "help"
	})
}

type page struct {
	cmd  *cobra.Command
	text bytes.Buffer
}

func (p *page) line(format string, a ...any) { fmt.Fprintf(&p.text, format+"\n", a...) }

func (p *page) section(title string) { p.line(".SH %s", quoted(title)) }

func (p *page) synopsis() {
	p.section("SYNOPSIS")
	if p.cmd.Runnable() {
		name := p.cmd.CommandPath()
		p.fill(`\fB` + escape(name) + `\fR` + escape(strings.TrimPrefix(p.cmd.UseLine(), name)))
	}
	if len(shown(p.cmd)) > 0 {
		if p.cmd.Runnable() {
			p.line(".br")
		}
		p.line(`\fB%s\fR %s`, escape(p.cmd.CommandPath()), escape("COMMAND [flags] [ARG...]"))
	}
}

// prose writes paragraphs, and lines that are indented as they are.
func (p *page) prose(text string) {
	started := false
	for _, part := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if started {
			p.line(".PP")
		}
		started = true
		var filled []string
		flush := func() {
			p.fill(escape(strings.Join(filled, " ")))
			filled = nil
		}
		verbatim := false
		for line := range strings.Lines(part) {
			line = strings.TrimRight(line, "\n ")
			if indented := strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t"); indented != verbatim {
				flush()
				p.line("%s", map[bool]string{true: ".nf", false: ".fi"}[indented])
				verbatim = indented
			}
			if verbatim {
				p.verbatim(line)
			} else {
				filled = append(filled, line)
			}
		}
		flush()
		if verbatim {
			p.line(".fi")
		}
	}
}

// widest is how long a line of a page's source is: mandoc complains of more than 80 bytes.
const widest = 76

// fill writes text that is escaped as lines that are not too long.
func (p *page) fill(text string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > widest {
			p.line("%s", protect(line))
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	if line != "" {
		p.line("%s", protect(line))
	}
}

// verbatim writes one line that stays one line, over several of the source where it is long.
func (p *page) verbatim(text string) {
	text = protect(escape(text))
	for len(text) > widest {
		at := strings.LastIndex(text[:widest], " ")
		if strings.TrimSpace(text[:max(at, 0)]) == "" {
			break
		}
		p.line("%s\\", text[:at+1])
		text = text[at+1:]
	}
	p.line("%s", text)
}

func (p *page) commands() {
	below := shown(p.cmd)
	if len(below) == 0 {
		return
	}
	p.section("COMMANDS")
	for _, c := range below {
		p.line(".TP")
		p.line(`\fB%s\fR(1)`, escape(pageName(c)))
		p.fill(escape(c.Short + "."))
	}
}

func (p *page) flags(title string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	p.section(title)
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		names := `\fB` + escape("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			names = `\fB` + escape("-"+f.Shorthand) + `\fR, ` + names
		}
		if value != "" {
			names += ` \fI` + escape(value) + `\fR`
		}
		p.line(".TP")
		p.line("%s", names)
		p.fill(escape(usage + "."))
	})
}

func (p *page) examples() {
	if p.cmd.Example == "" {
		return
	}
	p.section("EXAMPLES")
	p.line(".nf")
	for line := range strings.Lines(p.cmd.Example) {
		p.verbatim(strings.TrimSpace(line))
	}
	p.line(".fi")
}

func (p *page) statuses() {
	p.section("EXIT STATUS")
	for _, s := range [][2]string{
		{"0", "Done."},
		{"1", "An error, or the command of run succeeded but its step was denied and rolled back."},
		{"2", "Wrong flags or arguments."},
		{"3", "It would overwrite edits made outside the sandbox, so nothing was done; --force overwrites them."},
		{"125", "Of run: the sandbox itself failed; the step was rolled back."},
		{"126, 127", "Of run: the command cannot be executed, or does not exist."},
		{"others", "Of run: the command's own; 128 and the number of the signal that ended it."},
	} {
		p.line(".TP")
		p.line(`\fB%s\fR`, s[0])
		p.fill(escape(s[1]))
	}
}

func (p *page) files() {
	p.section("FILES")
	for _, f := range [][2]string{
		{"codeagent.toml", "The configuration of a project, in its folder."},
		{"~/.config/codeagent/codeagent.toml", "The configuration of a user."},
		{"/etc/codeagent/codeagent.toml", "The configuration of the machine."},
	} {
		p.line(".TP")
		p.line(`\fI%s\fR`, escape(f[0]))
		p.fill(escape(f[1]))
	}
}

// seeAlso names the pages above and beside this one.
func (p *page) seeAlso() {
	var names []string
	if parent := p.cmd.Parent(); parent != nil {
		names = append(names, pageName(parent))
		if parent.HasParent() {
			for _, c := range shown(parent) {
				if c != p.cmd {
					names = append(names, pageName(c))
				}
			}
		}
	}
	if len(names) == 0 {
		return
	}
	p.section("SEE ALSO")
	for i, name := range names {
		comma := ","
		if i == len(names)-1 {
			comma = ""
		}
		p.line(`.BR %s (1)%s`, escape(name), comma)
	}
}

// escape makes text that roff prints as it is, with hyphens that can be copied into a
// shell.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "\t", "    ").Replace(text)
}

// protect keeps the start of a line from being a macro.
func protect(line string) string {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}

// quoted is escape for the argument of a macro.
func quoted(text string) string { return `"` + strings.ReplaceAll(escape(text), `"`, `\(dq`) + `"` }
