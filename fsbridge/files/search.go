package files

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// searcher finds the lines that a query matches in one file at a time. It is for
// one goroutine.
type searcher struct {
	q   *query
	dfa *dfa // nil for several lines, and where the text is enough
}

func newSearcher(q *query) *searcher {
	s := &searcher{q: q}
	if q.lines && !q.exact {
		s.dfa = newDFA(q.prog)
	}
	return s
}

// search calls line with the bounds of each line of buf that matches, without
// its end, until it returns false. buf holds whole lines. It returns false if
// there was more than it could look at.
func (s *searcher) search(buf []byte, line func(start, end int) bool) (all bool) {
	switch {
	case !s.q.lines:
		return s.several(buf, line)
	case len(s.q.need.text) > 0:
		s.candidates(buf, line)
	default:
		s.all(buf, line)
	}
	return true
}

// candidates looks closer at the lines that hold the needle.
func (s *searcher) candidates(buf []byte, line func(start, end int) bool) {
	f := newFinder(s.q.need)
	for pos := 0; pos < len(buf); {
		i := f.next(buf, pos)
		if i < 0 {
			return
		}
		start, end := lineAt(buf, pos, i)
		if (s.q.exact || s.matches(buf[start:end])) && !line(start, end) {
			return
		}
		pos = end + 1
	}
}

// all looks at each line.
func (s *searcher) all(buf []byte, line func(start, end int) bool) {
	for pos := 0; pos < len(buf); {
		start, end := pos, 0
		if !s.dfa.dead {
			i := s.dfa.find(buf[pos:])
			switch {
			case i >= 0:
				start, end = lineAt(buf, pos, pos+i)
			case !s.dfa.dead:
				return
			}
		}
		if s.dfa.dead {
			start, end = lineAt(buf, pos, pos)
			if !s.q.re.Match(buf[start:end]) {
				pos = end + 1
				continue
			}
		}
		if !line(start, end) {
			return
		}
		pos = end + 1
	}
}

func (s *searcher) matches(line []byte) bool {
	if s.dfa.dead {
		return s.q.re.Match(line)
	}
	i := s.dfa.find(line)
	return i >= 0 || s.dfa.dead && s.q.re.Match(line)
}

// maxSpans bounds the matches of a file that may cover several lines.
const maxSpans = 50_000

// several reports each line that a match covers, once. It returns false if there
// are too many.
func (s *searcher) several(buf []byte, line func(start, end int) bool) bool {
	if f := newFinder(s.q.need); len(buf) == 0 || len(s.q.need.text) > 0 && f.next(buf, 0) < 0 {
		return true
	}
	done := 0
	all := s.q.re.FindAllIndex(buf, maxSpans)
	for _, m := range all {
		last := max(m[0], m[1]-1)
		if m[0] == len(buf) { // nothing, at the end
			if buf[len(buf)-1] == '\n' {
				break // behind the last line
			}
			m[0], last = len(buf)-1, len(buf)-1
		}
		for pos := max(m[0], done); pos <= last && pos < len(buf); {
			start, end := lineAt(buf, done, pos)
			if !line(start, end) {
				return true
			}
			pos = end + 1
			done = pos
		}
	}
	return len(all) < maxSpans
}

// lineAt returns the bounds of the line that holds buf[i], which begins at or
// after from.
func lineAt(buf []byte, from, i int) (start, end int) {
	start = from + bytes.LastIndexByte(buf[from:i], '\n') + 1
	end = len(buf)
	if n := bytes.IndexByte(buf[i:], '\n'); n >= 0 {
		end = i + n
	}
	return start, end
}

// Match is one line that matches, or is near one that does.
type Match struct {
	Path    string `json:"path"`
	Line    int    `json:"line"` // from 1
	Text    string `json:"text"` // at most 2 KiB, invalid UTF-8 replaced
	Context bool   `json:"context,omitempty"`
	Cut     bool   `json:"cut,omitempty"` // the line is longer
}

// collector makes matches of the lines of one file, which it gets in pieces.
type collector struct {
	mode          Mode
	before, after int
	most          int // lines that match at most
	bytes         int // how much text there may be yet

	path    string
	matches []Match
	count   int  // lines that match
	more    bool // there are more
	full    bool // no more fit

	line  int // the number, from 0, of the line at pos
	pos   int
	shown int // what is before it in the piece has been shown
	owed  int // lines of context yet to show
}

// search searches what a piece holds from a place on. It returns false when that
// is enough.
func (c *collector) search(s *searcher, piece []byte, from int) bool {
	on := true
	all := s.search(piece[from:], func(start, _ int) bool {
		on = c.add(piece, from+start)
		return on
	})
	if on {
		c.context(piece, len(piece))
	}
	c.more = c.more || !all
	return on
}

// piece tells that the first bytes of a piece are gone.
func (c *collector) piece(gone int) {
	c.pos, c.shown = c.pos-gone, max(0, c.shown-gone)
}

// add takes a line that matches; it returns false when that is enough.
func (c *collector) add(buf []byte, start int) bool {
	switch c.mode {
	case ModeFiles:
		c.count = 1
		return false
	case ModeCount:
		c.count++
		return true
	}
	c.context(buf, start)
	if c.count == c.most || c.bytes <= 0 {
		c.more, c.full = true, true
		return false
	}
	c.count++
	first := start
	for n := 0; n < c.before && first > c.shown; n++ {
		first = bytes.LastIndexByte(buf[:first-1], '\n') + 1
	}
	for first = max(first, c.shown); first < start; {
		first = c.show(buf, first, true)
	}
	c.shown = c.show(buf, start, false)
	c.owed = c.after
	return true
}

// context shows what is owed up to a place.
func (c *collector) context(buf []byte, to int) {
	for c.owed > 0 && c.shown < to && c.shown < len(buf) {
		c.shown = c.show(buf, c.shown, true)
		c.owed--
	}
}

// show adds the line at a place and returns where the next begins.
func (c *collector) show(buf []byte, at int, context bool) (next int) {
	_, end := lineAt(buf, at, at)
	c.line += bytes.Count(buf[c.pos:at], []byte{'\n'})
	c.pos = at
	text, cut := shorten(buf[at:end])
	c.bytes -= len(text) + len(c.path)
	c.matches = append(c.matches, Match{Path: c.path, Line: c.line + 1, Text: text, Context: context, Cut: cut})
	return min(end+1, len(buf))
}

// rest returns from where on a piece that has been searched is needed: its last
// lines may be context of what follows.
func (c *collector) rest(piece []byte, context bool) int {
	keep := len(piece)
	for n := 0; context && n < c.before && keep > 0; n++ {
		next := bytes.LastIndexByte(piece[:keep-1], '\n') + 1
		if len(piece)-next > maxContextBytes {
			break
		}
		keep = next
	}
	if c.mode == ModeContent {
		lo, hi := min(c.pos, keep), max(c.pos, keep)
		n := bytes.Count(piece[lo:hi], []byte{'\n'})
		if keep < c.pos {
			n = -n
		}
		c.line += n
	}
	c.pos = keep
	return keep
}

// maxContextBytes bounds what is kept for the lines before a match, in bytes.
const maxContextBytes = 4 << 20

// shorten makes text of a line.
func shorten(line []byte) (text string, cut bool) {
	if len(line) > MaxText {
		end := MaxText
		for end > MaxText-utf8.UTFMax && !utf8.RuneStart(line[end]) {
			end--
		}
		line, cut = line[:end], true
	}
	if !utf8.Valid(line) {
		return strings.ToValidUTF8(string(line), string(utf8.RuneError)), cut
	}
	return string(line), cut
}
