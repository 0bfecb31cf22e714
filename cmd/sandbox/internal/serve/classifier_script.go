package serve

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// A script that cannot be parsed in full is read as far as it can be, by three
// rules that together keep text put behind a command from lowering its class:
//
//   - What is not complete (a quote that is not closed) may become anything with
//     more text behind it. So only the commands before it count: the longest
//     beginning that is a script by itself.
//   - What no further text can mend (a parenthesis too many) does not hide what
//     comes after it: reading goes on behind the next separator.
//   - What is too much to read is Destructive.

var (
	errDeep       = errors.New("too deeply nested")
	errTooMuch    = errors.New("too many parts that cannot be parsed")
	errParser     = errors.New("the parser gave up")
	errUnfinished = errors.New("it ends in a backslash")
)

// defect is where and why a script could not be parsed.
type defect struct {
	offset int
	open   bool // more text may mend it
	err    error
}

// script reads a shell script that is part of the command.
func (c *collector) script(text string, depth int) {
	if c.budget -= len(text); c.budget < 0 || depth > maxDepth {
		c.unparsed(errDeep.Error())
		return
	}
	// The parser refuses bytes that are not UTF-8, and takes a carriage return for
	// a part of a line's end, which no shell does.
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r", "\uFFFD")
	(&reader{c: c, depth: depth}).script(text, true)
}

// script reads as much of a script as can be: the whole of one, or what stands
// before a part of it.
func (r *reader) script(text string, whole bool) {
	for text != "" {
		wrong := r.read(text, whole)
		if wrong == nil {
			return
		}
		if !r.c.partial { // what is wrong with a part of it then says little
			r.c.unparsed(inert(wrong.err.Error()))
		}
		if wrong.offset < 0 {
			r.c.raise(Destructive, inert(wrong.err.Error()))
			return
		}
		if end := lastSeparator(text[:min(wrong.offset+1, len(text))]); end > 0 {
			r.script(text[:end], false)
		}
		next := separator(text[wrong.offset:])
		if wrong.open || next < 0 {
			return
		}
		text = text[wrong.offset+next+1:]
	}
}

func isSeparator(c byte) bool { return strings.IndexByte("\n;&|)", c) >= 0 }

// separator returns where the first separator of commands stands, or -1.
func separator(text string) int {
	return strings.IndexFunc(text, func(c rune) bool { return c < utf8.RuneSelf && isSeparator(byte(c)) })
}

// lastSeparator returns where the last separator stands, or -1. The ampersand of
// "&>" is none.
func lastSeparator(text string) int {
	for i := len(text) - 1; i >= 0; i-- {
		if isSeparator(text[i]) && !strings.HasPrefix(text[i:], "&>") {
			return i
		}
	}
	return -1
}

// read classifies text if it is a script. A here-document without an end is no
// hindrance: a shell takes the end of the text for it. Where the text is cut a
// backslash does not stand for itself, as it does at the end of the whole.
func (r *reader) read(text string, whole bool) *defect {
	end := ""
	for last := -1; ; {
		if r.c.parse -= len(text); r.c.parse < 0 {
			return &defect{offset: -1, err: errTooMuch}
		}
		stmts, err := parse(text + end)
		if n := len(stmts); n > 0 && !whole && end == "" && dangling(text) && int(stmts[n-1].End().Offset()) >= len(text) {
			return &defect{offset: len(text) - 1, open: true, err: errUnfinished}
		}
		if err == nil {
			r.text = text + end
			r.list(stmts, source{})
			return nil
		}
		wrong, document := found(err, text)
		if !document || wrong.offset == last {
			return wrong
		}
		r.c.unparsed("a here-document does not end")
		last = wrong.offset
		end += "\n\n" + delimiter(text[last:])
	}
}

// dangling reports whether text ends in a backslash that escapes what may come.
func dangling(text string) bool {
	return (len(text)-len(strings.TrimRight(text, `\`)))%2 == 1
}

// found returns what an error of the parser means, and whether it is a
// here-document that does not end.
func found(err error, text string) (wrong *defect, document bool) {
	wrong = &defect{offset: -1, err: err}
	var at syntax.Pos
	var perr syntax.ParseError
	var lerr syntax.LangError
	switch {
	case errors.As(err, &perr):
		at, wrong.err = perr.Pos, errors.New(perr.Text)
	case errors.As(err, &lerr):
		at = lerr.Pos
	default:
		return wrong, false
	}
	wrong.offset = min(int(at.Offset()), len(text))
	wrong.open = syntax.IsIncomplete(err) || wrong.offset == len(text)
	return wrong, strings.HasPrefix(perr.Text, "unclosed here-document")
}

// delimiter returns what ends the here-document that text begins with.
func delimiter(text string) string {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "<<"), "-")
	for w, err := range syntax.NewParser().WordsSeq(&feed{text: text}) {
		if err != nil || w == nil {
			break
		}
		in := &reader{c: &collector{}, text: text}
		return in.word(w).text
	}
	return ""
}

// parse returns the statements that text begins with, and the error that ended
// them. The text is hostile: a parser that panics on it has not understood it.
func parse(text string) (stmts []*syntax.Stmt, err error) {
	defer func() {
		if recover() != nil {
			err = errParser
		}
	}()
	for s, failed := range syntax.NewParser().StmtsSeq(&feed{text: text}) { // to its end: it does not stop at once
		if s != nil {
			stmts = append(stmts, s)
		}
		if failed != nil {
			err = failed
		}
	}
	return stmts, err
}

// feed hands a text to the parser in small pieces and ends it with errDeep when
// the parser, which is recursive and has no limit, has gone too deep.
type feed struct{ text string }

func (f *feed) Read(b []byte) (int, error) {
	const (
		piece     = 64   // bytes
		maxFrames = 4000 // about 300 parentheses of arithmetic
	)
	if f.text == "" {
		return 0, io.EOF
	}
	var pc [1]uintptr
	if runtime.Callers(maxFrames, pc[:]) > 0 {
		return 0, errDeep
	}
	n := copy(b, f.text[:min(piece, len(f.text))])
	f.text = f.text[n:]
	return n, nil
}

// inert is the parser's message without what disturbs a terminal.
func inert(message string) string {
	return strings.Map(func(r rune) rune {
		if !clean(r) && r != ' ' {
			return '\uFFFD'
		}
		return r
	}, message)
}
