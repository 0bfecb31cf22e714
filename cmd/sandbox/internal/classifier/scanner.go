package classifier

import (
	"errors"
	"strings"
)

// word is a shell word without its quotes. What is only known when it runs
// stands in text as it is written, substitutions as "$()".
type word struct {
	text     string
	quoted   bool // some of it is: not a reserved word
	computed bool // some of it is an expansion
	pattern  bool // unquoted * ? [ or {
	source        // of the substitutions in it
}

// redirection is one of a command's.
type redirection struct {
	op     string
	target word
}

// heredoc waits for its body, which begins after the line.
type heredoc struct {
	delimiter string
	literal   bool // the delimiter was quoted: no expansions
	tabs      bool // <<-
	script    bool // a shell reads it
}

// command is a simple command, or the head of a compound one.
type command struct {
	assigns []word
	words   []word
	redirs  []redirection
	docs    []*heredoc
}

// scanner reads a script and hands over its simple commands one by one. An
// error ends it; the command that was being read then does not count, those
// before do: what the end of a text says about its beginning must not change
// with what is put behind.
type scanner struct {
	c     *collector
	src   string
	pos   int
	depth int

	cmd   command
	pipe  pipeline
	out   source // of all that it prints
	docs  []*heredoc
	funcs []string
	cases int  // case statements that are open
	label bool // a case's pattern comes next
}

// pipeline is what came before in the pipeline.
type pipeline struct {
	source
	names []string
}

// source says where text comes from.
type source struct{ fetched, decoded bool }

func (a source) or(b source) source {
	return source{a.fetched || b.fetched, a.decoded || b.decoded}
}

var (
	errQuote = errors.New("a quote is not closed")
	errClose = errors.New("a parenthesis or brace is not closed")
	errParen = errors.New("an unexpected parenthesis")
	errDeep  = errors.New("too deeply nested")
	errDoc   = errors.New("a here-document does not end")
	errRedir = errors.New("a redirection without a target")
	errCase  = errors.New("an unfinished case")
)

func (s *scanner) peek(i int) byte {
	if s.pos+i < len(s.src) {
		return s.src[s.pos+i]
	}
	return 0
}

func (s *scanner) has(prefix string) bool { return strings.HasPrefix(s.src[s.pos:], prefix) }

// list reads commands until the text ends, or until the closing parenthesis
// that end is.
func (s *scanner) list(end byte) error {
	open := 0 // subshells
	for {
		s.blanks()
		if s.pos >= len(s.src) {
			s.flush()
			switch {
			case s.cases > 0:
				return errCase
			case end != 0 || open > 0:
				return errClose
			case len(s.docs) > 0:
				return errDoc
			}
			return nil
		}
		if s.label {
			if err := s.caseLabel(); err != nil {
				return err
			}
			continue
		}
		switch c := s.src[s.pos]; c {
		case '\n':
			s.pos++
			s.next()
			if err := s.bodies(); err != nil {
				return err
			}
		case ';', '&', '|':
			if err := s.operator(c); err != nil {
				return err
			}
		case '(':
			done, err := s.paren()
			if err != nil {
				return err
			}
			if !done {
				open++
			}
		case ')':
			s.pos++
			s.next()
			if open == 0 && end == ')' {
				return nil
			}
			if open--; open < 0 {
				return errParen
			}
		case '<', '>':
			if err := s.redirect(); err != nil {
				return err
			}
		default:
			if err := s.argument(); err != nil {
				return err
			}
		}
	}
}

// blanks skips blanks, line continuations and comments.
func (s *scanner) blanks() {
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case c == ' ' || c == '\t':
			s.pos++
		case c == '\\' && s.peek(1) == '\n':
			s.pos += 2
		case c == '#':
			for s.pos < len(s.src) && s.src[s.pos] != '\n' {
				s.pos++
			}
		default:
			return
		}
	}
}

// flush hands over the command, if there is one.
func (s *scanner) flush() {
	cmd := s.cmd
	s.cmd = command{}
	if len(cmd.words)+len(cmd.assigns)+len(cmd.redirs)+len(cmd.docs) > 0 {
		s.c.simple(s, cmd)
	}
}

// next ends the command and the pipeline.
func (s *scanner) next() {
	s.flush()
	s.pipe = pipeline{}
}

func (s *scanner) operator(c byte) error {
	switch {
	case s.has("&>"):
		return s.redirect()
	case s.has("&&"), s.has("||"):
		s.pos += 2
		s.next()
	case s.has("|&"):
		s.pos += 2
		s.flush()
	case c == '|':
		s.pos++
		s.flush()
	case s.has(";;&"):
		s.pos += 3
		s.next()
		s.label = s.cases > 0
	case s.has(";;"), s.has(";&"):
		s.pos += 2
		s.next()
		s.label = s.cases > 0
	default:
		s.pos++
		s.next()
	}
	return nil
}

// paren reads what follows an opening parenthesis: an arithmetic command, the
// parentheses of a function, or (done false) the beginning of a subshell.
func (s *scanner) paren() (done bool, err error) {
	n := len(s.cmd.words)
	head := n > 0 && !s.cmd.words[0].quoted && !s.cmd.words[0].computed
	switch {
	case s.has("((") && (n == 0 || n == 1 && head && s.cmd.words[0].text == "for"):
		s.pos += 2
		return true, s.arithmetic(2)
	case n == 1 && head || n == 2 && head && s.cmd.words[0].text == "function":
		s.pos++
		if s.blanks(); s.peek(0) != ')' {
			return true, errParen
		}
		s.pos++
		s.define(s.cmd.words[n-1].text)
		return true, nil
	case n > 0:
		return true, errParen
	}
	s.pos++
	return false, nil
}

// define notes a function; what follows is its body.
func (s *scanner) define(name string) {
	s.funcs = append(s.funcs, name)
	s.cmd = command{}
}

// argument reads a word and puts it where it belongs.
func (s *scanner) argument() error {
	w, err := s.word()
	if err != nil {
		return err
	}
	plain := !w.quoted && !w.computed
	if next := s.peek(0); plain && (next == '<' || next == '>') && digits(w.text) {
		return s.redirect() // 2>file
	}
	cmd := &s.cmd
	switch n := len(cmd.words); {
	case n == 0 && len(cmd.assigns) == 0 && plain && reserved(w.text):
	case n == 0 && len(cmd.assigns) == 0 && plain && w.text == "esac" && s.cases > 0:
		s.cases--
	case n == 0 && plain && w.text == "[[":
		return s.condition()
	case n == 0 && assignment(w.text):
		if s.peek(0) == '(' && strings.HasSuffix(w.text, "=") {
			return s.array()
		}
		cmd.assigns = append(cmd.assigns, w)
	case n == 2 && plain && w.text == "in" && cmd.words[0].text == "case" && !cmd.words[0].quoted:
		cmd.words = nil
		s.cases, s.label = s.cases+1, true
	case n == 2 && plain && w.text == "{" && cmd.words[0].text == "function" && !cmd.words[0].quoted:
		s.define(cmd.words[1].text)
	default:
		cmd.words = append(cmd.words, w)
	}
	return nil
}

// reserved words that stand before a command or after its end.
func reserved(w string) bool {
	switch w {
	case "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!", "coproc":
		return true
	}
	return false
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// assignment reports whether w is NAME=value.
func assignment(w string) bool {
	name, _, ok := strings.Cut(w, "=")
	name = strings.TrimSuffix(name, "+")
	if i := strings.IndexByte(name, '['); i > 0 && strings.HasSuffix(name, "]") {
		name = name[:i]
	}
	return ok && identifier(name)
}

func identifier(name string) bool {
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}) < 0
}

// array reads the elements of NAME=(...).
func (s *scanner) array() error {
	s.pos++
	for {
		s.blanks()
		switch c := s.peek(0); {
		case s.pos >= len(s.src):
			return errClose
		case c == ')':
			s.pos++
			s.cmd.assigns = append(s.cmd.assigns, word{text: "_=", computed: true})
			return nil
		case c == '\n':
			s.pos++
		case strings.IndexByte("();&|<>", c) >= 0:
			return errParen
		default:
			if _, err := s.word(); err != nil {
				return err
			}
		}
	}
}

// condition reads [[ ... ]]: operators in it are no operators of the shell.
func (s *scanner) condition() error {
	for {
		s.blanks()
		switch c := s.peek(0); {
		case s.pos >= len(s.src):
			return errClose
		case strings.IndexByte("\n();&|<>", c) >= 0:
			s.pos++
		default:
			w, err := s.word()
			if err != nil {
				return err
			}
			if w.text == "]]" && !w.quoted {
				return nil
			}
		}
	}
}

// caseLabel reads the patterns of a case up to their parenthesis, or esac.
func (s *scanner) caseLabel() error {
	for first := true; ; first = false {
		for s.blanks(); s.peek(0) == '\n'; s.blanks() {
			s.pos++
		}
		switch c := s.peek(0); {
		case s.pos >= len(s.src):
			return errCase
		case c == ')':
			s.pos++
			s.label = false
			return nil
		case c == '|' || c == '(':
			s.pos++
		case strings.IndexByte(";&<>", c) >= 0:
			return errParen
		default:
			w, err := s.word()
			if err != nil {
				return err
			}
			if first && w.text == "esac" && !w.quoted {
				s.cases, s.label = s.cases-1, false
				return nil
			}
		}
	}
}

// redirect reads a redirection from its first sign on.
func (s *scanner) redirect() error {
	if s.has("<(") || s.has(">(") { // process substitution: a word
		s.pos += 2
		w := word{text: "/dev/fd/0", computed: true}
		if err := s.substitute(&w); err != nil {
			return err
		}
		s.cmd.words = append(s.cmd.words, w)
		return nil
	}
	op := ""
	for _, o := range []string{"&>>", "&>", "<<<", "<<-", "<<", "<>", "<&", ">>", ">|", ">&", "<", ">"} {
		if s.has(o) {
			op = o
			break
		}
	}
	s.pos += len(op)
	s.blanks()
	if s.has("<(") || s.has(">(") {
		if op != "<" && op != ">" {
			return errRedir
		}
		s.pos += 2
		w := word{text: "/dev/fd/0", computed: true}
		if err := s.substitute(&w); err != nil {
			return err
		}
		s.cmd.redirs = append(s.cmd.redirs, redirection{op, w})
		return nil
	}
	w, err := s.word()
	if err != nil {
		return err
	}
	if w.text == "" && !w.quoted && !w.computed {
		return errRedir
	}
	if op == "<<" || op == "<<-" {
		d := &heredoc{delimiter: w.text, literal: w.quoted, tabs: op == "<<-"}
		s.docs, s.cmd.docs = append(s.docs, d), append(s.cmd.docs, d)
		return nil
	}
	s.cmd.redirs = append(s.cmd.redirs, redirection{op, w})
	return nil
}

// bodies reads the here-documents that the line announced.
func (s *scanner) bodies() error {
	docs := s.docs
	s.docs = nil
	for _, d := range docs {
		start, end := s.pos, -1
		for s.pos < len(s.src) && end < 0 {
			line, _, _ := strings.Cut(s.src[s.pos:], "\n")
			text := line
			if d.tabs {
				text = strings.TrimLeft(line, "\t")
			}
			if text == d.delimiter {
				end = s.pos
			}
			s.pos = min(s.pos+len(line)+1, len(s.src))
		}
		body := s.src[start:max(end, start)]
		if end < 0 {
			body = s.src[start:]
		}
		if err := s.body(d, body); err != nil {
			return err
		}
		if end < 0 {
			return errDoc
		}
	}
	return nil
}

func (s *scanner) body(d *heredoc, body string) error {
	if d.script {
		s.c.script(body, s.depth+1)
		return nil
	}
	if d.literal {
		return nil
	}
	// Substitutions in it run.
	if s.c.budget -= len(body); s.c.budget < 0 || s.depth >= maxDepth {
		return errDeep
	}
	in := &scanner{c: s.c, src: body, depth: s.depth + 1}
	var w word
	return in.expand(&w, 0)
}
