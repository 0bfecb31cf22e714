package console

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/texts"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// StepOutput writes what was kept of a command's output: its bytes as they are, or, on a terminal, what [Tame] makes of them. Where
// something was left out, a line says so.
func StepOutput(w io.Writer, o undolog.CommandOutput, terminal bool, p Painter) {
	cut := min(max(o.Cut, 0), len(o.Data))
	for i, part := range [][]byte{o.Data[:cut], o.Data[cut:]} {
		if i == 1 && o.LeftOut > 0 {
			fmt.Fprintln(w, p.Dim(fmt.Sprintf("[... %d bytes left out ...]", o.LeftOut)))
		}
		if len(part) == 0 {
			continue
		}
		if terminal {
			part = []byte(Tame(string(part), p.on))
		}
		_, _ = w.Write(part) // an Output remembers the error
		if part[len(part)-1] != '\n' {
			fmt.Fprintln(w)
		}
	}
}

// sgr is a sequence that only changes colours and the like.
var sgr = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^\x1b\\[[0-9;:]{0,64}m") }) // each start of the program would pay for it

// Tame is a command's output as a terminal may show it: lines, tabs and, if colours is set, colours. Returns within a line become new lines.
// All else that is not a printable character is written as its number, as <001B>. Colours end with the text.
func Tame(s string, colours bool) string {
	text, painted := tame(strings.ReplaceAll(s, "\r\n", "\n"), colours, "\n")
	if painted {
		text += "\x1b[0m"
	}
	return text
}

// tame is [Tame] with another text for a return within a line, and says whether there are colours in it.
func tame(s string, colours bool, back string) (text string, painted bool) {
	var b strings.Builder
	for len(s) > 0 {
		n := strings.IndexAny(s, "\x1b\r\n\t")
		if n < 0 {
			n = len(s)
		}
		b.WriteString(texts.Inert(s[:n]))
		if s = s[n:]; s == "" {
			break
		}
		seq := sgr().FindString(s)
		switch {
		case seq != "":
			if colours {
				b.WriteString(seq)
				painted = true
			}
			s = s[len(seq):]
			continue
		case strings.HasPrefix(s, "\r\n"):
			b.WriteByte('\r')
		case s[0] == '\r':
			b.WriteString(back)
		case s[0] == '\x1b':
			b.WriteString(texts.Inert(s[:1]))
		default:
			b.WriteByte(s[0])
		}
		s = s[1:]
	}
	return b.String(), painted
}
