package texts

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Most is how many bytes of a text are shown. Of a longer one the middle is left out: a path's end says as
// much as its beginning.
const Most = 1 << 10

// maxMarks is how many combining marks may follow each other: more of them cover the lines above and below.
const maxMarks = 4

// Clean reports whether a character can be shown as it is: it is printable, and it is seen.
func Clean(r rune) bool {
	return r != unicode.ReplacementChar && unicode.IsPrint(r) && !Invisible(r)
}

// Invisible reports whether a character is not seen or reorders others, so that a text looks like another one.
func Invisible(r rune) bool {
	return unicode.Is(unicode.Cf, r) || // bidirectional controls, zero width, tags
		r == 0x034F || r == 0x115F || r == 0x1160 || r == 0x17B4 || r == 0x17B5 || r == 0x3164 || r == 0xFFA0 || r == 0x2800 || // fillers
		r >= 0x180B && r <= 0x180F || r >= 0xFE00 && r <= 0xFE0F || r >= 0xE0100 && r <= 0xE01EF || // variation selectors
		r == 0x2028 || r == 0x2029
}

// isClean reports whether all of a text can be shown as it is.
func isClean(s string) bool {
	marks := 0
	for _, r := range s {
		if !Clean(r) {
			return false
		}
		if marks = marked(marks, r); marks > maxMarks {
			return false
		}
	}
	return true
}

// marked counts combining marks that follow each other.
func marked(marks int, r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return marks + 1
	}
	return 0
}

// Name is a name, or a text with names in it: as it is if all of it is clean, else quoted as in Go.
func Name(s string) string {
	head, cut, tail := halves(s, Most)
	if cut == 0 && isClean(s) {
		return s
	}
	if cut > 0 && isClean(head) && isClean(tail) {
		return head + mark(cut) + tail
	}
	return Quoted(s)
}

// Quoted is a name in quotes, as in Go.
func Quoted(s string) string {
	head, cut, tail := halves(s, Most)
	if cut == 0 {
		return quote(s)
	}
	return strings.TrimSuffix(quote(head), `"`) + mark(cut) + strings.TrimPrefix(quote(tail), `"`)
}

// mark stands for the bytes that are left out. No clean name can be mistaken for it: a name with it is a longer one.
func mark(cut int) string { return "[… " + strconv.Itoa(cut) + " bytes …]" }

// halves are the beginning and the end of a text of more than most bytes, and how many bytes are left out between them.
func halves(s string, most int) (head string, cut int, tail string) {
	if len(s) <= most {
		return s, 0, ""
	}
	head, tail = s[:most/2], s[len(s)-most/2:]
	for i := 0; i < utf8.UTFMax && len(head) > 0; i++ { // a character that is cut through goes
		if r, n := utf8.DecodeLastRuneInString(head); r != utf8.RuneError || n != 1 {
			break
		}
		head = head[:len(head)-1]
	}
	for i := 0; i < utf8.UTFMax && len(tail) > 0 && !utf8.RuneStart(tail[0]); i++ {
		tail = tail[1:]
	}
	return head, len(s) - len(head) - len(tail), tail
}

// quote is strconv.Quote, but what that takes for printable is escaped too, unless it is clean.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	marks := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		marks = marked(marks, r)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case Clean(r) && marks <= maxMarks:
			b.WriteRune(r)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
		i += n
	}
	b.WriteByte('"')
	return b.String()
}

// Line is a text for people, on one line: what is not clean is written as its number, <202E>. White space between words
// becomes one space.
func Line(s string) string {
	head, cut, tail := halves(s, Most)
	if cut > 0 {
		return line(head) + mark(cut) + line(tail)
	}
	return line(s)
}

func line(s string) string { return Inert(strings.Join(strings.Fields(s), " ")) }

// Lines is Line for each line of a text, which keeps its indentation.
func Lines(s string) []string {
	var out []string
	for l := range strings.SplitSeq(s, "\n") {
		indent := len(l) - len(strings.TrimLeft(l, " "))
		out = append(out, strings.Repeat(" ", min(indent, 8))+Line(l))
	}
	return out
}

// Message is a text of several lines in which what is not clean is written as its number, but for line breaks and tabs. Of more than most bytes the middle is left out.
func Message(s string, most int) string {
	head, cut, tail := halves(s, most)
	if cut > 0 {
		return message(head) + mark(cut) + message(tail)
	}
	return message(s)
}

func message(s string) string {
	if isClean(s) {
		return s
	}
	var b strings.Builder
	for {
		at := strings.IndexAny(s, "\n\t")
		if at < 0 {
			break
		}
		b.WriteString(Inert(s[:at]))
		b.WriteByte(s[at])
		s = s[at+1:]
	}
	b.WriteString(Inert(s))
	return b.String()
}

// Inert is a text of any length in which what is not clean is written as its number.
func Inert(s string) string {
	if isClean(s) {
		return s
	}
	var b strings.Builder
	marks := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		marks = marked(marks, r)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "<%02X>", s[i])
		case Clean(r) && marks <= maxMarks:
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "<%04X>", r)
		}
		i += n
	}
	return b.String()
}

// Unmarked is a text in which nothing is markup (XML, or the backslashes that some programs expand): what would be is written with a character that looks like it.
func Unmarked(s string) string {
	return strings.NewReplacer("<", "‹", ">", "›", "&", "＆", `\`, "＼").Replace(s)
}

// Clip shortens a text to n characters, of which the last stands for what is left out.
func Clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	if n <= 0 {
		return ""
	}
	return string([]rune(s)[:n-1]) + "…"
}
