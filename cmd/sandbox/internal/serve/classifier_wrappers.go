package serve

import (
	"strings"
)

// wrapper describes a program that runs another: which of its options take a
// value as the next word, and how many words of its own stand before the other
// program.
type wrapper struct {
	values string // letters of short options, and long ones with blanks around
	own    int
	assign bool // NAME=value may stand before the program
}

// wrapped returns how a program runs another.
func wrapped(name string) (w wrapper, ok bool) {
	switch name {
	case "sudo":
		return wrapper{values: "ugpCDhRrTt --user --group --prompt --chdir --host --chroot --role --type ", assign: true}, true
	case "doas":
		return wrapper{values: "uC"}, true
	case "pkexec":
		return wrapper{values: " --user "}, true
	case "env":
		return wrapper{values: "uCS --unset --chdir ", assign: true}, true
	case "nice":
		return wrapper{values: "n --adjustment "}, true
	case "ionice":
		return wrapper{values: "cnpPu --class --classdata "}, true
	case "chrt":
		return wrapper{values: "TPD", own: 1}, true
	case "taskset":
		return wrapper{own: 1}, true
	case "timeout", "gtimeout":
		return wrapper{values: "ks --kill-after --signal ", own: 1}, true
	case "time":
		return wrapper{values: "fo --format --output "}, true
	case "stdbuf":
		return wrapper{values: "ioe --input --output --error "}, true
	case "nohup", "setsid", "builtin", "noglob", "nocorrect", "unbuffer", "setarch", "catchsegv", "busybox", "toybox", "rlwrap":
		return wrapper{}, true
	case "command":
		return wrapper{}, true
	case "exec":
		return wrapper{values: "a"}, true
	case "chroot":
		return wrapper{own: 1}, true
	case "flock":
		return wrapper{values: "wE --timeout --conflict-exit-code ", own: 1}, true
	case "xargs", "gxargs":
		return wrapper{values: "IadELnPs --replace --arg-file --delimiter --max-lines --max-args --max-procs --max-chars "}, true
	case "parallel":
		return wrapper{values: "jNnIaS --jobs --max-args --arg-file "}, true
	case "watch":
		return wrapper{values: "n --interval "}, true
	case "strace", "ltrace":
		return wrapper{values: "abeEIoOpPsSuU"}, true
	case "unshare", "nsenter", "dbus-run-session", "xvfb-run", "fakeroot", "eatmydata", "proot", "faketime":
		return wrapper{}, true
	}
	return wrapper{}, false
}

// inside returns the words of the program that w runs.
func (k wrapper) inside(w []word) (rest []word, assigns []string) {
	own := k.own
	for i := 1; i < len(w); i++ {
		t := w[i].text
		switch {
		case t == "--":
			for ; own > 0 && i+1 < len(w); own-- {
				i++
			}
			return w[i+1:], assigns
		case strings.HasPrefix(t, "--"):
			if strings.Contains(k.values, " "+t+" ") {
				i++
			}
		case len(t) > 1 && t[0] == '-' && !w[i].computed:
			// The letter that takes a value ends a group; if it is last the value
			// is the next word.
			if j := strings.IndexAny(t[1:], letters(k.values)); j >= 0 && j == len(t)-2 {
				i++
			}
		case k.assign && assignment(t):
			assigns = append(assigns, t)
		case own > 0:
			own--
		default:
			return w[i:], assigns
		}
	}
	return nil, assigns
}

func letters(values string) string {
	short, _, _ := strings.Cut(values, " ")
	return short
}

// wrapper classifies what a wrapper runs.
func (e *evaluation) wrapper(name string, k wrapper, w []word, depth int) (Class, string) {
	switch name {
	case "sudo", "doas", "pkexec":
		e.c.warn(WarnPrivilege, name+" asks for more rights")
		e.raise(WriteClass, "%s runs it with more rights", name)
	case "command":
		if has(w, "v", "V") {
			return ReadOnly, ""
		}
	case "time", "strace", "ltrace":
		if has(w, "o", "--output") {
			e.raise(WriteClass, "%s writes a file", name)
		}
	case "unshare", "nsenter", "chroot", "proot", "busybox", "flock":
		e.raise(WriteClass, "%s", name)
	}
	rest, assigns := k.inside(w)
	for _, a := range assigns {
		e.assign(a)
	}
	if name == "env" {
		if i := index(w, "-S", "--split-string"); i >= 0 && i+1 < len(w) {
			e.script(w[i+1], depth)
		}
	}
	if len(rest) == 0 {
		if name == "sudo" || name == "doas" || name == "parallel" {
			return WriteClass, name + " runs what it is given"
		}
		return ReadOnly, ""
	}
	if name == "watch" || name == "parallel" || name == "flock" && has(w, "c", "--command") {
		for _, a := range rest { // given to a shell
			if strings.ContainsAny(a.text, " ;|&<>$`") {
				e.script(a, depth)
			}
		}
	}
	if name == "xargs" && (rest[0].text == "{}" || rest[0].text == "%") {
		return WriteClass, "xargs runs what it reads"
	}
	e.words(rest, depth+1)
	return ReadOnly, ""
}

// script classifies a word that is given to a shell.
func (e *evaluation) script(w word, depth int) {
	if w.computed {
		e.raise(WriteClass, "runs a script that is computed: %s", shown(w.text))
		e.fed(w)
	}
	if w.fetched || w.decoded {
		return
	}
	e.c.script(w.text, e.r.depth+depth+1)
}

// shell classifies a shell.
func (e *evaluation) shell(name string, w []word, depth int) (Class, string) {
	for i := 1; i < len(w); i++ {
		t := w[i].text
		switch {
		case t == "-c" || len(t) > 2 && t[0] == '-' && t[1] != '-' && strings.HasSuffix(t, "c"):
			if i+1 < len(w) {
				e.script(w[i+1], depth)
			}
			return ReadOnly, ""
		case t == "--version" || t == "--help":
			return ReadOnly, ""
		case t == "-s" || t == "-" || t == "/dev/stdin":
			e.fed(word{})
			return WriteClass, name + " runs what it reads"
		case t == "-o" || t == "+o" || t == "-O" || t == "+O" || t == "--rcfile" || t == "--init-file":
			i++
		case t == "-n":
			return ReadOnly, "" // reads only
		case len(t) > 0 && (t[0] == '-' || t[0] == '+'):
		default:
			e.fed(w[i])
			return WriteClass, name + " runs " + shown(t)
		}
	}
	e.fed(word{})
	return WriteClass, name + " runs what it reads"
}

func isShell(name string) bool {
	switch name {
	case "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "rbash", "csh", "tcsh":
		return true
	}
	return false
}

// readsScript reports whether the command is a shell that reads its script from
// stdin.
func readsScript(w []word) bool {
	for range maxDepth {
		if len(w) == 0 {
			return false
		}
		name, _ := programName(w[0].text)
		if k, ok := wrapped(name); ok {
			w, _ = k.inside(w)
			continue
		}
		if !isShell(name) {
			return false
		}
		for _, a := range w[1:] {
			if !strings.HasPrefix(a.text, "-") {
				return false
			}
		}
		return true
	}
	return false
}

// has reports whether one of the options is given: single letters may be
// in a group ("-rf"), long ones may have a value ("--output=x").
func has(w []word, options ...string) bool {
	for _, a := range w[1:] {
		if a.text == "--" {
			return false
		}
		for _, o := range options {
			if len(o) == 1 {
				if len(a.text) > 1 && a.text[0] == '-' && a.text[1] != '-' && strings.Contains(a.text[1:], o) {
					return true
				}
			} else if a.text == o || strings.HasPrefix(a.text, o+"=") {
				return true
			}
		}
	}
	return false
}

// index returns where one of the words stands, or -1.
func index(w []word, texts ...string) int {
	for i, a := range w {
		for _, t := range texts {
			if a.text == t {
				return i
			}
		}
	}
	return -1
}

// operands returns the arguments that are no options.
func operands(w []word) []word {
	var out []word
	for i, a := range w[1:] {
		if a.text == "--" {
			return append(out, w[i+2:]...)
		}
		if len(a.text) < 2 || a.text[0] != '-' {
			out = append(out, a)
		}
	}
	return out
}

// verb returns the first operand, which many programs have as a subcommand.
func verb(w []word) string {
	if o := operands(w); len(o) > 0 && !o[0].computed {
		return o[0].text
	}
	return ""
}
