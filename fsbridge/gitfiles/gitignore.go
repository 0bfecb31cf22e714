package gitfiles

import (
	"path"
	"strings"
)

// rule is one line of a .gitignore file.
type rule struct {
	pattern string
	how     matching
	negated bool // "!": what it matches is not ignored
	dirOnly bool // trailing "/"
	path    bool // has a "/": matched against the path below the file's directory
}

type matching uint8

const (
	wildcards matching = iota
	literal
	suffix // the pattern was "*" and a literal
)

// file is one .gitignore file.
type file struct {
	base  string // its directory, relative to the folder
	rules []rule
}

// IgnoreRules are the .gitignore files that are in force in a directory, those
// further down, which win, last. They are never changed.
type IgnoreRules []file

// Match tells whether name in the directory dir is ignored; "." is the folder. What is
// in an ignored directory is not asked about.
func (g IgnoreRules) Match(dir, name string, isDir bool) bool {
	full := ""
	for i := len(g) - 1; i >= 0; i-- {
		set := &g[i]
		for j := len(set.rules) - 1; j >= 0; j-- {
			r := &set.rules[j]
			if r.dirOnly && !isDir {
				continue
			}
			text := name
			if r.path {
				if full == "" {
					full = path.Join(dir, name)
				}
				text = full
				if set.base != "." {
					text = full[len(set.base)+1:]
				}
			}
			if r.match(text) {
				return !r.negated
			}
		}
	}
	return false
}

func (r *rule) match(text string) bool {
	switch r.how {
	case literal:
		return text == r.pattern
	case suffix:
		return strings.HasSuffix(text, r.pattern)
	}
	return wildmatch(r.pattern, text)
}

// parse reads a .gitignore file as git does.
func parse(text string) []rule {
	var rules []rule
	text = strings.TrimPrefix(text, "\ufeff")
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if r, ok := parseRule(line); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

func parseRule(line string) (r rule, ok bool) {
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	line = trimSpaces(line)
	line, r.negated = strings.CutPrefix(line, "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	r.path = strings.Contains(line, "/")
	r.pattern = strings.TrimPrefix(line, "/")
	rest, star := strings.CutPrefix(r.pattern, "*")
	switch {
	case !strings.ContainsAny(r.pattern, `*?[\`):
		r.how = literal
	case star && !r.path && !strings.ContainsAny(rest, `*?[\`):
		r.how, r.pattern = suffix, rest
	}
	return r, line != "" && (r.pattern != "" || r.how == suffix)
}

// trimSpaces cuts trailing spaces that no backslash protects.
func trimSpaces(s string) string {
	end := 0
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		} else if s[i] == ' ' {
			continue
		}
		end = min(i+1, len(s))
	}
	return s[:end]
}

// wildmatch matches a whole path as git's function of that name does, byte by
// byte: "*", "?" and classes match no "/", "**" between slashes any directories.
// Its time is bounded by the product of the lengths and of the path's depth.
func wildmatch(p, s string) bool {
	pi, si := 0, 0
	star, starAt := -1, 0 // where to go on after the last "*", which took s up to starAt
	deep, deepAt := -1, 0 // the same for the last "**/"
	for {
		switch {
		case pi == len(p):
			if si == len(s) {
				return true
			}
		case p[pi] == '*':
			end := pi
			for end < len(p) && p[end] == '*' {
				end++
			}
			bounded := end-pi > 1 && (pi == 0 || p[pi-1] == '/') && (end == len(p) || p[end] == '/')
			switch {
			case bounded && end == len(p):
				return true
			case bounded:
				pi = end + 1
				deep, deepAt, star = pi, si, -1
			default:
				pi = end
				star, starAt = pi, si
			}
			continue
		case si < len(s):
			if next, ok := matchOne(p, pi, s[si]); ok {
				pi, si = next, si+1
				continue
			}
		}
		switch { // no: let the last wildcard take more
		case star >= 0 && starAt < len(s) && s[starAt] != '/':
			starAt++
			pi, si = star, starAt
		case deep >= 0:
			i := strings.IndexByte(s[deepAt:], '/')
			if i < 0 {
				return false
			}
			deepAt += i + 1
			pi, si, star = deep, deepAt, -1
		default:
			return false
		}
	}
}

// matchOne matches one byte with what is at p[i], and returns what follows that.
func matchOne(p string, i int, c byte) (next int, ok bool) {
	switch p[i] {
	case '?':
		return i + 1, c != '/'
	case '[':
		next, ok := matchClass(p, i+1, c)
		return next, ok && c != '/'
	case '\\':
		return i + 2, i+1 < len(p) && p[i+1] == c
	}
	return i + 1, p[i] == c
}

// matchClass matches a byte with the class whose inside begins at p[i].
func matchClass(p string, i int, c byte) (next int, ok bool) {
	negated := i < len(p) && (p[i] == '!' || p[i] == '^')
	if negated {
		i++
	}
	for first := true; ; first = false {
		switch {
		case i >= len(p):
			return i, false // never closed: matches nothing
		case p[i] == ']' && !first:
			return i + 1, ok != negated
		case strings.HasPrefix(p[i:], "[:") && strings.Contains(p[i+2:], ":]"):
			name, _, _ := strings.Cut(p[i+2:], ":]")
			in, known := posixClass(name, c)
			if !known {
				return i, false
			}
			ok = ok || in
			i += len(name) + 4
			continue
		}
		lo, after := classByte(p, i)
		hi := lo
		if after+1 < len(p) && p[after] == '-' && p[after+1] != ']' {
			hi, after = classByte(p, after+1)
		}
		ok = ok || lo <= c && c <= hi
		i = after
	}
}

func classByte(p string, i int) (c byte, next int) {
	if p[i] == '\\' && i+1 < len(p) {
		i++
	}
	return p[i], i + 1
}

func posixClass(name string, c byte) (in, known bool) {
	lower, upper, digit := 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9'
	graph := 0x21 <= c && c <= 0x7e
	switch name {
	case "alpha":
		return lower || upper, true
	case "alnum":
		return lower || upper || digit, true
	case "digit":
		return digit, true
	case "lower":
		return lower, true
	case "upper":
		return upper, true
	case "xdigit":
		return digit || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F', true
	case "space":
		return c == ' ' || 9 <= c && c <= 13, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < 0x20 || c == 0x7f, true
	case "graph":
		return graph, true
	case "print":
		return graph || c == ' ', true
	case "punct":
		return graph && !lower && !upper && !digit, true
	}
	return false, false
}
