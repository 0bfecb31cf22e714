package serve

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// reader goes over the statements of one script, those of the substitutions in
// it too.
type reader struct {
	c     *collector
	text  string
	depth int
	funcs []string // defined so far
}

// pipeline is what came before in a pipeline.
type pipeline struct {
	source
	names []string
}

// source says where text comes from.
type source struct{ fetched, decoded bool }

func (a source) or(b source) source {
	return source{a.fetched || b.fetched, a.decoded || b.decoded}
}

// list classifies statements that read in, each with the words before in front of
// it, and returns what they print.
func (r *reader) list(stmts []*syntax.Stmt, in source, before ...word) (out source) {
	for _, s := range stmts {
		p := pipeline{source: in}
		r.stmt(s, &p, before...)
		out = out.or(p.source)
	}
	return out
}

// stmt classifies a statement of a pipeline. The words before stand in front of
// its first command, unless that is a compound one.
func (r *reader) stmt(s *syntax.Stmt, p *pipeline, before ...word) {
	words, assigns := before, []string(nil)
	switch x := s.Cmd.(type) {
	case *syntax.CallExpr:
		for _, a := range x.Assigns {
			assigns = append(assigns, r.assign(a).text)
		}
		for _, w := range x.Args {
			words = append(words, r.word(w))
		}
	case *syntax.DeclClause:
		words = append(words, word{text: x.Variant.Value})
		for _, a := range x.Args {
			words = append(words, r.assign(a))
		}
	}
	e := &evaluation{c: r.c, r: r, in: p.source, names: p.names}
	for _, a := range assigns {
		e.assign(a)
	}
	for _, d := range s.Redirs {
		r.redirect(e, d, words)
	}
	name := ""
	switch s.Cmd.(type) {
	case nil, *syntax.CallExpr, *syntax.DeclClause:
		if len(words) > 0 {
			name = e.words(words, 0)
		}
		p.source = e.out(name)
	default:
		p.source = r.compound(s.Cmd, e.in, p, before)
	}
	p.names = append(p.names, name)
}

// compound classifies what is no simple command, and returns what it prints.
func (r *reader) compound(cmd syntax.Command, in source, p *pipeline, before []word) source {
	switch x := cmd.(type) {
	case *syntax.BinaryCmd:
		if x.Op == syntax.Pipe || x.Op == syntax.PipeAll {
			r.stmt(x.X, p, before...)
			r.stmt(x.Y, p)
			return p.source
		}
		return r.list([]*syntax.Stmt{x.X}, in, before...).or(r.list([]*syntax.Stmt{x.Y}, in))
	case *syntax.Block:
		return r.list(x.Stmts, in)
	case *syntax.Subshell:
		return r.list(x.Stmts, in)
	case *syntax.IfClause:
		var out source
		for ; x != nil; x = x.Else {
			out = out.or(r.list(x.Cond, in)).or(r.list(x.Then, in))
		}
		return out
	case *syntax.WhileClause:
		return r.list(x.Cond, in).or(r.list(x.Do, in))
	case *syntax.ForClause:
		r.loop(x.Loop)
		return r.list(x.Do, in)
	case *syntax.CaseClause:
		r.inside(x.Word)
		var out source
		for _, i := range x.Items {
			for _, w := range i.Patterns {
				r.inside(w)
			}
			out = out.or(r.list(i.Stmts, in))
		}
		return out
	case *syntax.FuncDecl:
		if x.Name != nil {
			r.funcs = append(r.funcs, x.Name.Value)
		}
		r.list([]*syntax.Stmt{x.Body}, in)
	case *syntax.TimeClause:
		if x.Stmt != nil {
			return r.list([]*syntax.Stmt{x.Stmt}, in, word{text: "time"}) // -o is an option of the program
		}
	case *syntax.CoprocClause:
		if x.Name != nil { // a shell takes it for one only before a compound command
			before = []word{r.word(x.Name)}
		}
		return r.list([]*syntax.Stmt{x.Stmt}, in, before...)
	case *syntax.ArithmCmd, *syntax.TestClause, *syntax.LetClause:
		r.inside(x)
	default:
		r.c.unparsed("an unknown kind of command")
	}
	return source{}
}

func (r *reader) loop(l syntax.Loop) {
	items, ok := l.(*syntax.WordIter)
	if !ok {
		r.inside(l)
		return
	}
	e := &evaluation{c: r.c, r: r}
	for _, w := range items.Items {
		e.argument(r.word(w))
	}
}

// redirection is one of a command's.
type redirection struct {
	op     string
	target word
}

// redirect classifies a redirection of the command with these words.
func (r *reader) redirect(e *evaluation, d *syntax.Redirect, words []word) {
	if d.Op != syntax.Hdoc && d.Op != syntax.DashHdoc {
		e.redirection(redirection{d.Op.String(), r.word(d.Word)})
		return
	}
	if d.Hdoc == nil {
		return
	}
	if len(words) == 0 || !readsScript(words) {
		r.inside(d.Hdoc)
		return
	}
	r.c.script(r.raw(d.Hdoc), r.depth+1)
}

// raw is a part of the script as it is written.
func (r *reader) raw(n syntax.Node) string {
	end := min(int(n.End().Offset()), len(r.text))
	return r.text[min(int(n.Pos().Offset()), end):end]
}

// inside classifies the substitutions in a part of the script, and returns what
// they print.
func (r *reader) inside(n syntax.Node) (out source) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch x := n.(type) {
		case *syntax.CmdSubst:
			out = out.or(r.substitution(x.Stmts))
			return false
		case *syntax.ProcSubst:
			out = out.or(r.substitution(x.Stmts))
			return false
		}
		return true
	})
	return out
}

// substitution classifies the commands of one.
func (r *reader) substitution(stmts []*syntax.Stmt) source {
	if r.depth >= maxDepth {
		r.c.unparsed(errDeep.Error())
		return source{}
	}
	in := &reader{c: r.c, text: r.text, depth: r.depth + 1, funcs: slices.Clone(r.funcs)}
	return in.list(stmts, source{})
}
