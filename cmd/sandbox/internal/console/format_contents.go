package console

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/codeagent/sandbox/fsbridge/texts"
)

// terminal reports whether w is one.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// inertWriter passes text on as a terminal may show it. What a write ends within (a character, a line's end) waits for the next write.
type inertWriter struct {
	w    io.Writer
	show func(string) string
	rest []byte
}

// Write implements [io.Writer].
func (t *inertWriter) Write(b []byte) (int, error) {
	all := append(t.rest, b...) //nolint:gocritic // rest is made anew below
	n := len(all) - unfinished(all)
	t.rest = bytes.Clone(all[n:])
	if n > 0 {
		if _, err := io.WriteString(t.w, t.show(string(all[:n]))); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// Close writes what waits. It leaves the writer below open.
func (t *inertWriter) Close() error {
	rest := string(t.rest)
	t.rest = nil
	if rest == "" {
		return nil
	}
	_, err := io.WriteString(t.w, t.show(rest))
	return err
}

// unfinished is how many bytes at the end of b may be the beginning of one character or of a line's end.
func unfinished(b []byte) int {
	if bytes.HasSuffix(b, []byte("\r")) {
		return 1
	}
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// plain is the text of a file as a terminal may show it: lines and tabs stay. All else that is not a printable character is written as its
// number. That includes colours, which can hide text.
func plain(s string) string {
	var b strings.Builder
	for line := range strings.SplitAfterSeq(s, "\n") {
		text, end := strings.TrimSuffix(line, "\n"), ""
		if text != line {
			end = "\n"
			if t := strings.TrimSuffix(text, "\r"); t != text {
				text, end = t, "\r\n"
			}
		}
		for i, cell := range strings.Split(text, "\t") {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(texts.Inert(cell))
		}
		b.WriteString(end)
	}
	return b.String()
}

// painted is our own text as a terminal may show it: lines, tabs and colours stay.
func painted(s string) string {
	text, _ := tame(s, true, "<000D>")
	return text
}

// cleanJSON escapes the characters that a terminal must not be given. In JSON they stand only within strings.
func cleanJSON(data []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(data) {
		switch {
		case r == '\n' || texts.Clean(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			r -= 0x10000
			b.WriteString(`\u` + strconv.FormatInt(int64(0xD800+r>>10), 16) + `\u` + strconv.FormatInt(int64(0xDC00+r&0x3FF), 16))
		default:
			hex := strconv.FormatInt(int64(r), 16)
			b.WriteString(`\u` + strings.Repeat("0", 4-len(hex)) + hex)
		}
	}
	return b.Bytes()
}

// Contents calls write with a writer for what others have chosen, as the contents of files: on a terminal nothing of that acts, into a pipe or a file the
// bytes go as they are.
func (o *Output) Contents(write func(w io.Writer) error) error {
	if !o.terminal {
		return write(o)
	}
	w := &inertWriter{w: o, show: plain}
	err := write(w)
	if e := w.Close(); err == nil {
		err = e
	}
	return err
}

// JSON writes v, indented, and a newline.
func (o *Output) JSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	data := b.Bytes()
	if o.terminal {
		data = cleanJSON(data)
	}
	_, err := o.Write(data)
	return err
}
