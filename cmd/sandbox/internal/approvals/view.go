package approvals

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/fsbridge/texts"
	"github.com/codeagent/sandbox/messages"
)

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen = true
	return v
}

// screen are the lines of the terminal, no more than it has.
func (m *model) screen() []string {
	width, height := m.width, m.height
	if width <= 0 || height <= 0 {
		return nil // its size is not known yet
	}
	keys := wrap(m.help(), width)
	keys = keys[:min(len(keys), max(1, height/3))]
	body := height - len(keys) - 2 // the title and the note
	if body < 2 {
		return clip(append([]string{m.title()}, keys...), width, height)
	}
	out := append([]string{bold(fit(m.title(), width))}, m.list(width, body/3)...)
	out = append(out, strings.Repeat("─", width))
	var details []string
	for _, l := range m.details() {
		details = append(details, hang(l, width)...)
	}
	room := max(0, height-len(keys)-1-len(out))
	m.scroll = min(m.scroll, max(0, len(details)-room))
	more := len(details) - room - m.scroll
	details = details[m.scroll:min(len(details), m.scroll+room)]
	if more > 0 && len(details) > 0 {
		details[len(details)-1] = fit(details[len(details)-1], width-4) + " [↓]"
	}
	out = append(out, details...)
	for len(out) < height-len(keys)-1 {
		out = append(out, "")
	}
	out = append(out[:height-len(keys)-1], m.noteLine(width))
	return clip(append(out, keys...), width, height)
}

// list are the lines about the chosen one, at most so many.
func (m *model) list(width, most int) []string {
	keys := m.keys()
	if len(keys) == 0 {
		return wrap(m.empty(), width)
	}
	at := max(0, slices.Index(keys, m.current()))
	most = max(1, min(len(keys), most))
	top := min(max(0, at-most/2), len(keys)-most)
	lines := make([]string, most)
	for i := range lines {
		if top+i == at {
			lines[i] = reverse(fit("> "+m.line(top+i), width))
		} else {
			lines[i] = fit("  "+m.line(top+i), width)
		}
	}
	return lines
}

func bold(s string) string    { return "\x1b[1m" + s + "\x1b[m" }
func reverse(s string) string { return "\x1b[7m" + s + "\x1b[m" }

// fit cuts a line that is too wide, and says so.
func fit(s string, width int) string { return ansi.Truncate(s, max(0, width), "…") }

// wrap breaks a text into lines, where it can between words.
func wrap(s string, width int) []string { return strings.Split(ansi.Wrap(s, width, " "), "\n") }

// hang wraps a line; what follows is indented as what is behind the label.
func hang(l detail, width int) []string {
	const indent = 8
	if width < 3*indent {
		return wrap(strings.TrimSpace(l.label+" "+l.text), width)
	}
	lines := wrap(l.text, width-indent)
	for i := range lines {
		label := ""
		if i == 0 {
			label = l.label
		}
		lines[i] = fmt.Sprintf("%-*s%s", indent, label, lines[i])
	}
	return lines
}

func clip(lines []string, width, height int) []string {
	lines = lines[:min(len(lines), height)]
	for i, l := range lines {
		lines[i] = fit(l, width)
	}
	return lines
}

func (m *model) title() string {
	title := "WAITING "
	if m.history {
		title = "HISTORY "
	}
	keys := m.keys()
	if len(keys) > 1 {
		title += fmt.Sprint(slices.Index(keys, m.current())+1, "/")
	}
	title += fmt.Sprint(len(keys))
	switch n := len(m.states); n {
	case 0:
		return title + "  no session"
	case 1:
		for id, s := range m.states {
			return title + "  session " + texts.Name(id) + "  " + texts.Name(strings.Join(s.info.Directories, ", "))
		}
	default:
		return fmt.Sprintf("%s  %d sessions", title, n)
	}
	return title
}

// empty says why there is nothing in the list.
func (m *model) empty() string {
	switch {
	case m.lookErr != nil:
		return "Sessions cannot be listed: " + texts.Line(m.lookErr.Error())
	case m.history:
		return "Nothing was decided yet."
	case len(m.states) == 0 && m.looked:
		return "No session is running; waiting for one."
	case len(m.states) == 0:
		return ""
	}
	return "Nothing waits for a decision."
}

// help are the keys, and what they would do now.
func (m *model) help() string {
	if m.history {
		return "u take back  ↑↓ choose  space/b scroll  tab what waits  q leave"
	}
	text := "a allow  d deny"
	if q, ok := m.asked(); ok && !messages.Lasting(q.Kind) {
		text += " (this time)"
	} else {
		text += " (" + m.stands() + ")  s scope"
		if scopes[m.scope] != "once" {
			text += "  t time"
		}
	}
	return text + "  ↑↓ choose  space/b scroll  tab history  q leave"
}

func (m *model) noteLine(width int) string {
	if m.note == "" {
		return ""
	}
	line := fit(texts.Line(m.note), width)
	if m.bad {
		return bold(line)
	}
	return line
}

// line is a line of the list.
func (m *model) line(i int) string {
	if m.history {
		a := m.past[i]
		return fmt.Sprintf("%s %-5s %s  %s", a.At.Local().Format(time.TimeOnly), verdict(a.Decided), texts.Name(a.ID), what(a.Pending))
	}
	q := m.asks[i]
	return fmt.Sprintf("%s %s  %s", texts.Name(q.ID), left(q.Deadline.Sub(m.now())), what(q.Pending))
}

// verdict is a decision in one word.
func verdict(d api.Decided) string {
	switch {
	case d.TakenBack:
		return "taken back"
	case d.Outcome == "withdrawn":
		return "gone"
	}
	return texts.Name(d.Outcome)
}

// what is a question on one line. A path of a question about several is one of its sample.
func what(p api.Pending) string {
	text := texts.Line(strings.TrimSuffix(p.Message, " Awaiting confirmation."))
	if len(p.Callers) > 0 {
		text = texts.Name(p.Callers[0].Name) + ": " + text
	}
	return text
}

// left is a time that is still to come.
func left(d time.Duration) string {
	if d <= 0 {
		return "0s"
	}
	return d.Round(time.Second).String()
}

// detail is a line about what is chosen.
type detail struct{ label, text string }

// details are all that is known of what is chosen.
func (m *model) details() []detail {
	if a, ok := m.given(); ok {
		return m.answered(a)
	}
	q, ok := m.asked()
	if !ok {
		return nil
	}
	list := about(q.Pending)
	now := m.now()
	list = append(list,
		detail{"waits", console.Took(now.Sub(q.Since).Round(time.Second)) + "; denied at " + q.Deadline.Local().Format(time.TimeOnly) + ", in " + left(q.Deadline.Sub(now))})
	return append(list, place(q.session, q.Pending)...)
}

func (m *model) answered(a answer) []detail {
	text := map[string]string{"allow": "allowed", "deny": "denied", "withdrawn": "withdrawn"}[a.Outcome]
	text += " by " + texts.Name(a.By) + " at " + a.At.Local().Format(time.DateTime)
	if a.Scope != "" {
		text += ", scope " + texts.Name(a.Scope)
	}
	if !a.Until.IsZero() {
		text += ", until " + a.Until.Local().Format(time.DateTime)
	}
	back := "u takes it back; what has happened because of it stays"
	switch {
	case a.over:
		back = "its session has ended"
	case !a.Standing:
		back = "it cannot be taken back: " + texts.Line(a.Final)
	}
	list := append([]detail{{"answer", text}}, about(a.Pending)...)
	if a.Rule != "" {
		list = append(list, detail{"rule", texts.Name(a.Rule)})
	}
	list = append(list, detail{"undo", back})
	return append(list, place(a.session, a.Pending)...)
}

// about is what a question is about, and who asks.
func about(p api.Pending) []detail {
	list := []detail{{"what", texts.Line(p.Message)}}
	for i, path := range p.SamplePaths {
		label := ""
		if i == 0 {
			label = "paths"
		}
		list = append(list, detail{label, texts.Name(path)})
	}
	if n := p.Count - len(p.SamplePaths); n > 0 && len(p.SamplePaths) > 0 {
		list = append(list, detail{"", fmt.Sprintf("... %d in all", p.Count)})
	}
	list = append(list, detail{"why", reason(p.Kind)})
	for i, c := range p.Callers {
		label := "asks"
		if i > 0 {
			label = "within"
		}
		list = append(list, detail{label, texts.Line(c.String())})
	}
	return list
}

// place is where a question came from.
func place(session string, p api.Pending) []detail {
	step := "none is open"
	if p.Step != 0 {
		step = fmt.Sprint(p.Step)
	}
	if p.Command != "" {
		step += ": " + texts.Line(p.Command)
	}
	return []detail{{"step", step}, {"folder", texts.Name(p.Directory)}, {"session", texts.Name(session)}}
}

// reason is why something is held.
func reason(kind string) string {
	switch kind {
	case messages.KindDelete:
		return "the step deletes many files (safeguards.deletes)"
	case messages.KindOverwrite:
		return "a large file would be overwritten (safeguards.overwrite_bytes)"
	case messages.KindRename:
		return "an existing file would be replaced by a rename (safeguards.rename_over)"
	case messages.KindProtected:
		return "the path is protected, or a rule asks about it ('sandbox why --op write')"
	case messages.KindCommand:
		return "commands like this wait to be allowed (classifier.auto_approve)"
	case messages.KindNetwork:
		return "no rule of the network decides about it ('sandbox why --host')"
	case messages.KindGate:
		return "it lies behind a gate, and no rule decides about it ('sandbox why --op read')"
	case messages.KindUse:
		return "a key outside would be used (--agent), and no rule decides about it ('sandbox policy show')"
	}
	return texts.Line(kind)
}
