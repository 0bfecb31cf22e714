package serve

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/codeagent/sandbox/fsbridge/texts"
)

const (
	maxReasons = 8  // and warnings: a result is for people
	maxDepth   = 24 // of substitutions and scripts in scripts
)

// collector gathers what is found in one command and the scripts inside it.
type collector struct {
	k       *Classifier
	class   Class
	reasons [Destructive + 1][]string
	warns   []Warning
	partial bool
	budget  int // bytes of scripts left to read
	parse   int // bytes left to parse, the attempts after an error included
}

// raise notes that a part is of that class.
func (c *collector) raise(class Class, reason string) {
	c.class = max(c.class, class)
	if class == ReadOnly || len(c.reasons[class]) >= maxReasons {
		return
	}
	for _, r := range c.reasons[class] {
		if r == reason {
			return
		}
	}
	c.reasons[class] = append(c.reasons[class], reason)
}

func (c *collector) unparsed(why string) {
	c.partial = true
	c.raise(WriteClass, "not understood: "+why)
}

func (c *collector) warn(code WarningCode, message string) {
	for _, w := range c.warns {
		if w.Code == code {
			return
		}
	}
	if len(c.warns) < maxReasons {
		c.warns = append(c.warns, Warning{code, message})
	}
}

func (c *collector) result() Classified {
	r := Classified{Class: c.class, Warnings: c.warns, Unparsed: c.partial, Reasons: c.reasons[c.class]}
	if c.partial && c.class == Destructive {
		for _, why := range c.reasons[WriteClass] {
			if strings.HasPrefix(why, "not understood: ") {
				r.Reasons = append(r.Reasons, why)
			}
		}
	}
	return r
}

// sanitise looks at the characters.
func (c *collector) sanitise(text string) {
	for i, r := range text {
		switch {
		case r == 0:
			c.warn(WarnNUL, "the command holds a NUL byte, where programs stop reading")
			c.unparsed("a NUL byte")
		case r == '\t' || r == '\n':
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			c.warn(WarnControl, fmt.Sprintf("the command holds a control character (U+%04X), which a terminal may obey", r))
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			c.warn(WarnEncoding, "the command is not UTF-8")
		case texts.Invisible(r):
			c.warn(WarnInvisible, fmt.Sprintf("the command holds a character that is not seen or reorders text (U+%04X): it may not be what it looks like", r))
		}
	}
}
