package console

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// GraphOptions say how a picture is drawn.
type GraphOptions struct {
	Width int  // of the terminal; 0: there is none, and lines are as long as they need
	ASCII bool // the locale has no other characters
	Paint Painter
	Now   time.Time
}

const (
	graphBarWidth = 5
	mostLabel     = 512 // characters of a command, if the terminal has room
	fewLabel      = 80  // without a terminal, as in the table
	labelRoom     = 24  // columns that are kept for commands before others are
	leastLabel    = 8   // columns of a command that its remarks leave
)

// DrawGraph writes the picture of entries, newest first, as [WithMarks] returns them, and
// says at its end what the glyphs mean.
func DrawGraph(w io.Writer, entries []undolog.Entry, o GraphOptions) error {
	p := &picture{GraphOptions: o, glyphs: unicodeGlyphs()}
	if o.ASCII {
		p.glyphs = asciiGlyphs()
	}
	p.lanes = lanesOf(entries, p.mostLanes())
	p.runs = make([]*run, p.lanes.count)
	p.measure(entries)
	var b strings.Builder
	if len(p.columns) > 0 {
		b.WriteString(p.line([]piece{{text: strings.Repeat(" ", p.lanes.width)}, {text: p.header()}}) + "\n")
	}
	for i := range entries {
		b.WriteString(p.row(i, entries[i]) + "\n")
	}
	b.WriteString("\n" + p.legend(entries))
	_, err := io.WriteString(w, b.String())
	return err
}

// picture is one that is being drawn.
type picture struct {
	GraphOptions
	glyphs  glyphs
	lanes   lanes
	runs    []*run // by lane: the run that has it, or had it last
	columns []column
	most    int // paths of an entry
}

// column is one between the lanes and the commands.
type column struct {
	title string
	cell  func(e undolog.Entry) string
	right bool // aligned
	width int
}

// measure chooses the columns that there is room for, and makes them as wide as they need.
func (p *picture) measure(entries []undolog.Entry) {
	for _, e := range entries {
		p.most = max(p.most, e.AffectedCount)
	}
	step, when := column{title: "STEP", cell: stepCell}, column{title: "WHEN", cell: p.whenCell}
	span, bar := column{title: "SPAN", cell: p.spanCell, right: true}, column{title: "PATHS", cell: p.barCell}
	count := column{cell: countCell, right: true}
	for _, set := range [][]column{{step, when, span, bar, count}, {step, when, bar, count}, {step, bar, count}, {step, bar}, {step}, nil} {
		total := p.lanes.width
		for i := range set {
			c := &set[i]
			c.width = textWidth(c.title)
			for _, e := range entries {
				c.width = max(c.width, textWidth(c.cell(e)))
			}
			total += c.width + gap(*c)
		}
		room := labelRoom
		if len(set) == 1 { // the number is what other commands ask for
			room = leastLabel
		}
		if p.columns = set; p.Width == 0 || total+room <= p.Width {
			return
		}
	}
}

// gap is how many spaces are before a column: the count stands beside its bar.
func gap(c column) int {
	if c.title == "" {
		return 1
	}
	return 2
}

func (c column) padded(s string) string {
	fill := strings.Repeat(" ", max(0, c.width-textWidth(s)))
	if c.right {
		s, fill = fill, s
	}
	return s + fill
}

func (p *picture) header() string {
	var b strings.Builder
	for _, c := range p.columns {
		b.WriteString(strings.Repeat(" ", gap(c)) + c.padded(c.title))
	}
	return b.String() + "  COMMAND"
}

func stepCell(e undolog.Entry) string {
	if e.Type == TypeMark || e.Type == undolog.TypeBarrier {
		return string(e.Type)
	}
	return fmt.Sprint(e.StepID)
}

func (p *picture) whenCell(e undolog.Entry) string { return Ago(e.StartedAt, p.Now) }

// isStep reports whether e can be undone by itself.
func isStep(e undolog.Entry) bool {
	return e.Type != TypeMark && e.Type != undolog.TypeBarrier && e.Type != TypeOpen
}

// spanCell is how long e took from its first change to its end. What runs has none yet: WHEN
// says since when it does.
func (p *picture) spanCell(e undolog.Entry) string {
	if !isStep(e) || e.StartedAt.IsZero() || e.EndedAt.IsZero() {
		return ""
	}
	took := Took(max(0, e.EndedAt.Sub(e.StartedAt)))
	if p.ASCII {
		took = strings.ReplaceAll(took, "µ", "u")
	}
	return took
}

func countCell(e undolog.Entry) string {
	if !isStep(e) {
		return ""
	}
	return fmt.Sprint(e.AffectedCount)
}

// barCell is as long as e has paths, on a logarithmic scale, as on the page.
func (p *picture) barCell(e undolog.Entry) string {
	if !isStep(e) || e.AffectedCount <= 0 || p.most <= 0 {
		return ""
	}
	return Bar(math.Log1p(float64(e.AffectedCount))/math.Log1p(float64(p.most)), graphBarWidth, p.ASCII)
}

// piece is a part of a line, before it is painted.
type piece struct {
	text  string
	paint func(string) string
}

// line joins pieces, cuts what is wider than the terminal, and paints the rest.
func (p *picture) line(pieces []piece) string {
	room := math.MaxInt
	if p.Width > 0 {
		room = p.Width
	}
	var b strings.Builder
	for _, x := range pieces {
		text := fit(x.text, room, "")
		room -= textWidth(text)
		if x.paint != nil && strings.Trim(text, " ") != "" {
			text = x.paint(text)
		}
		b.WriteString(text)
	}
	return strings.TrimRight(b.String(), " ")
}

// row is the line of an entry.
func (p *picture) row(i int, e undolog.Entry) string {
	kind := KindOf(e)
	pieces := p.laneCells(i, e, kind)
	for _, c := range p.columns {
		x := piece{text: strings.Repeat(" ", gap(c)) + c.padded(c.cell(e))}
		if c.title == "PATHS" {
			x.paint = func(s string) string { return p.Paint.Kind(kind, s) }
		}
		pieces = append(pieces, x)
	}
	if len(p.columns) == 0 {
		pieces = append(pieces, piece{text: " "})
	} else {
		pieces = append(pieces, piece{text: "  "})
	}
	pieces = append(pieces, p.label(i, e, kind, pieces)...)
	if kind == KindUndone { // all of it is dim
		for i := range pieces {
			pieces[i].paint = nil
		}
		return p.Paint.Dim(p.line(pieces))
	}
	return p.line(pieces)
}

// label is what an entry is called, with remarks about it, in the room that is left by what
// stands before it.
func (p *picture) label(i int, e undolog.Entry, kind Kind, before []piece) []piece {
	room, most := math.MaxInt, fewLabel
	if p.Width > 0 {
		room, most = p.Width, mostLabel
		for _, x := range before {
			room -= textWidth(x.text)
		}
	}
	remarks := p.remarks(i, e)
	for len(remarks) > 0 {
		need := 0
		for _, x := range remarks {
			need += textWidth(x.text)
		}
		if need <= room-leastLabel {
			room -= need
			break
		}
		remarks = remarks[:len(remarks)-1]
	}
	name := piece{text: fit(p.text(Label(e, most)), room, p.glyphs.cut)}
	switch kind {
	case KindBarrier, KindMark:
		name.paint = func(s string) string { return p.Paint.Kind(kind, s) }
	case KindAmbient:
		name.paint = p.Paint.Dim
	}
	return append([]piece{name}, remarks...)
}

// remarks are what else is to be said of a step, what matters most first.
func (p *picture) remarks(i int, e undolog.Entry) (list []piece) {
	if !isStep(e) && e.Type != TypeOpen {
		return nil
	}
	switch status := EntryStatus(e); {
	case blocked(e):
		list = append(list, piece{"  cannot be undone (" + p.text(status) + ")", p.Paint.Red})
	case status != "ok":
		list = append(list, piece{"  " + p.text(Shown(status)), p.Paint.Red})
	}
	if e.Group != 0 && p.lanes.names(i) {
		list = append(list, piece{fmt.Sprintf("  [run %d]", e.Group), p.Paint.Dim})
	}
	if e.CommandCount > 1 {
		list = append(list, piece{"  and " + Commands(e.CommandCount-1), p.Paint.Dim})
	}
	return list
}

// blocked reports whether an undo stops at step e.
func blocked(e undolog.Entry) bool { return isStep(e) && (e.Unprotected || e.Damaged != "") }

// text is a clean text in the characters that there are.
func (p *picture) text(s string) string {
	if p.ASCII {
		return ascii(s)
	}
	return s
}

// legend says what the glyphs mean that the picture has.
func (p *picture) legend(entries []undolog.Entry) string {
	there := map[Kind]bool{}
	for _, e := range entries {
		there[KindOf(e)] = true
		if blocked(e) {
			there[KindBarrier] = true
		}
	}
	var lines []string
	var line []piece
	used := 0
	for _, k := range []Kind{KindRunning, KindCommand, KindAPI, KindAmbient, KindBarrier, KindUndone, KindMark} {
		if !there[k] {
			continue
		}
		space := ""
		if used > 0 {
			space = "   "
		}
		name := " " + string(k)
		need := textWidth(space+p.glyphs.kinds[k]) + textWidth(name)
		if used > 0 && p.Width > 0 && used+need > p.Width {
			lines, line, used, space = append(lines, p.line(line)), nil, 0, ""
		}
		line = append(line, piece{text: space}, piece{p.glyphs.kinds[k], func(s string) string { return p.Paint.Kind(k, s) }}, piece{name, p.Paint.Dim})
		used += need
	}
	if line != nil {
		lines = append(lines, p.line(line))
	}
	return strings.Join(lines, "\n") + "\n"
}
