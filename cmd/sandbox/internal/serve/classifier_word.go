package serve

import (
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// word is a shell word without its quotes. What is only known when it runs
// stands in text as it is written, substitutions as "$()".
type word struct {
	text     string
	computed bool // some of it is an expansion
	pattern  bool // unquoted * ? [ or {
	source        // of the substitutions in it
}

// word reads one, and classifies the substitutions in it.
func (r *reader) word(x *syntax.Word) word {
	var w word
	if x != nil {
		var b strings.Builder
		r.parts(&w, &b, x.Parts, false)
		w.text = b.String()
	}
	return w
}

func (r *reader) parts(w *word, b *strings.Builder, parts []syntax.WordPart, quoted bool) {
	for _, p := range parts {
		switch x := p.(type) {
		case *syntax.Lit:
			escapes := ""
			if quoted {
				escapes = "$`\"\\\n"
			} else {
				w.pattern = w.pattern || strings.ContainsAny(unescape(x.Value, "", true), "*?[{")
			}
			b.WriteString(unescape(x.Value, escapes, false))
		case *syntax.SglQuoted:
			text := x.Value
			if x.Dollar {
				text, _, _ = expand.Format(nil, text, nil)
			}
			b.WriteString(text)
		case *syntax.DblQuoted:
			r.parts(w, b, x.Parts, true)
		default:
			w.computed = true
			w.source = w.or(r.inside(p))
			switch p.(type) {
			case *syntax.CmdSubst:
				b.WriteString("$()")
			case *syntax.ArithmExp:
				b.WriteString("$(())")
			case *syntax.ProcSubst:
				b.WriteString("/dev/fd/0")
			case *syntax.ExtGlob:
				w.pattern = true
				b.WriteString(r.raw(p))
			default:
				b.WriteString(r.raw(p))
			}
		}
	}
}

// unescape takes away the backslashes that escape one of those characters, of
// any if there are none, and drops what they escape if so asked.
func unescape(text, those string, drop bool) string {
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) || those != "" && strings.IndexByte(those, text[i+1]) < 0 {
			b.WriteByte(text[i])
		} else if i++; text[i] != '\n' && !drop {
			b.WriteByte(text[i])
		}
	}
	return b.String()
}

// assign reads an assignment, or an argument of declare and the like, as a word.
func (r *reader) assign(a *syntax.Assign) word {
	w := r.word(a.Value)
	if a.Index != nil {
		w.source = w.or(r.inside(a.Index))
	}
	if a.Array != nil {
		w.computed = true
		w.source = w.or(r.inside(a.Array))
	}
	switch {
	case a.Name == nil:
	case a.Naked:
		w.text = a.Name.Value
	default:
		w.text = a.Name.Value + "=" + w.text
	}
	return w
}

// assignment reports whether w is NAME=value.
func assignment(w string) bool {
	name, _, ok := strings.Cut(w, "=")
	return ok && syntax.ValidName(strings.TrimSuffix(name, "+"))
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
