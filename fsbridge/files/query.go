package files

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxPattern bounds a pattern, in bytes.
const maxPattern = 16 << 10

// query is a compiled pattern. It is not changed and may be used concurrently.
type query struct {
	lines bool // a match lies in one line
	// need is a text that each match holds, if there is one; exact says that it
	// is the whole of it.
	need  needle
	exact bool
	prog  *syntax.Prog
	re    *regexp.Regexp
}

// compile parses a pattern of RE2's syntax, or a text, so that ^ and $ are the
// ends of lines. Unless it is for several lines, nothing in it matches the end of
// a line, and it is as if each line was searched by itself.
func compile(pattern string, text, ignoreCase, multiline bool) (*query, error) {
	bad := func(format string, args ...any) (*query, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{ErrPattern}, args...)...)
	}
	switch {
	case pattern == "":
		return bad("it is empty")
	case len(pattern) > maxPattern:
		return bad("it has more than %d bytes", maxPattern)
	case text:
		pattern = regexp.QuoteMeta(pattern)
	}
	flags := syntax.Perl &^ syntax.OneLine
	if ignoreCase {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(pattern, flags)
	if err != nil {
		return bad("%w", err)
	}
	if !multiline {
		if tree = oneLine(tree); tree == nil {
			return bad("it has a line feed, which no line holds: ask for a multiline search")
		}
	}
	q := &query{lines: !multiline}
	if q.re, err = regexp.Compile(tree.String()); err != nil {
		return bad("%w", err)
	}
	q.need, q.exact = required(tree)
	if q.prog, err = syntax.Compile(tree.Simplify()); err != nil {
		return bad("%w", err)
	}
	return q, nil
}

// oneLine changes a pattern so that no match holds a line feed, and returns nil
// if it names one.
func oneLine(re *syntax.Regexp) *syntax.Regexp {
	switch re.Op {
	case syntax.OpLiteral:
		if slices.Contains(re.Rune, '\n') {
			return nil
		}
	case syntax.OpCharClass:
		re.Rune = without(re.Rune, '\n')
		if len(re.Rune) == 0 {
			re.Op = syntax.OpNoMatch
		}
	case syntax.OpAnyChar:
		re.Op = syntax.OpAnyCharNotNL
	case syntax.OpBeginText:
		re.Op = syntax.OpBeginLine
	case syntax.OpEndText:
		re.Op = syntax.OpEndLine
	}
	for _, sub := range re.Sub {
		if oneLine(sub) == nil {
			return nil
		}
	}
	return re
}

// without takes a rune out of the ranges of a class.
func without(ranges []rune, r rune) []rune {
	var out []rune
	for i := 0; i+1 < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		if r < lo || hi < r {
			out = append(out, lo, hi)
			continue
		}
		if lo < r {
			out = append(out, lo, r-1)
		}
		if r < hi {
			out = append(out, r+1, hi)
		}
	}
	return out
}

// required returns the longest text that it finds to be in each match, and
// whether it is the match.
func required(re *syntax.Regexp) (best needle, exact bool) {
	switch re.Op {
	case syntax.OpLiteral:
		return newNeedle(re.Rune, re.Flags&syntax.FoldCase != 0)
	case syntax.OpCapture:
		return required(re.Sub[0])
	case syntax.OpPlus:
		best, _ = required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			best, _ = required(re.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if n, _ := required(sub); len(n.text) > len(best.text) {
				best = n
			}
		}
	}
	return best, false
}

// needle is a text to look for; an empty one is everywhere.
type needle struct {
	text []byte // in lower case if fold is set, and then ASCII
	fold bool
	rare int // index of the byte in text to look for first, if fold is set
}

// newNeedle returns the part of a literal that can be looked for byte by byte,
// and whether that is all of it. Text in which case does not matter is cut where
// other characters than ASCII's count as the same letter (the Kelvin sign is a k,
// the long s an s), and every text where it could stand for bytes that are no
// UTF-8.
func newNeedle(runes []rune, fold bool) (needle, bool) {
	if fold && !slices.ContainsFunc(runes, func(r rune) bool { return r >= utf8.RuneSelf || isLetter(byte(r)) }) {
		fold = false
	}
	apart := func(r rune) bool {
		return r == utf8.RuneError || fold && (r >= utf8.RuneSelf || strings.ContainsRune("kKsS", r))
	}
	longest, start := "", 0
	for i := 0; i <= len(runes); i++ {
		if i < len(runes) && !apart(runes[i]) {
			continue
		}
		if s := string(runes[start:i]); len(s) > len(longest) {
			longest = s
		}
		start = i + 1
	}
	if !fold {
		return needle{text: []byte(longest)}, longest == string(runes)
	}
	n := needle{text: bytes.ToLower([]byte(longest)), fold: true}
	for i, c := range n.text {
		if strings.IndexByte(byFrequency, c) < strings.IndexByte(byFrequency, n.text[n.rare]) {
			n.rare = i
		}
	}
	return n, false
}

// byFrequency are letters, the rarest of texts first; what is not here is rarer.
const byFrequency = "qzjxkvwybhgmpfudclsanroite"

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// finder looks for a needle in one buffer, from front to back.
type finder struct {
	n            needle
	lower, upper int // where its rare letter is next
}

func newFinder(n needle) finder { return finder{n: n, lower: -1, upper: -1} }

// next returns where the needle is at or after from, or -1.
func (f *finder) next(buf []byte, from int) int {
	if !f.n.fold {
		i := bytes.Index(buf[from:], f.n.text)
		if i < 0 {
			return -1
		}
		return from + i
	}
	rare := f.n.text[f.n.rare]
	for at := from + f.n.rare; ; {
		f.lower = advance(buf, rare, f.lower, at)
		i := f.lower
		if isLetter(rare) {
			f.upper = advance(buf, rare&^0x20, f.upper, at)
			i = min(i, f.upper)
		}
		if i >= len(buf) {
			return -1
		}
		if start := i - f.n.rare; start+len(f.n.text) <= len(buf) && equalFold(buf[start:], f.n.text) {
			return start
		}
		at = i + 1
	}
}

// advance returns where c is at or after at, having been found at last: len(buf)
// if nowhere.
func advance(buf []byte, c byte, last, at int) int {
	if last >= at {
		return last
	}
	if at >= len(buf) {
		return len(buf)
	}
	if i := bytes.IndexByte(buf[at:], c); i >= 0 {
		return at + i
	}
	return len(buf)
}

// equalFold tells whether b begins with lower, ASCII in lower case.
func equalFold(b, lower []byte) bool {
	for i, c := range lower {
		x := b[i]
		if x != c && (!isLetter(x) || x|0x20 != c) {
			return false
		}
	}
	return true
}
