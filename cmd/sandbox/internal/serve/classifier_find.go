package serve

import (
	"strings"
)

// find classifies find's actions, and what it runs.
func (e *evaluation) find(w []word, depth int) (Class, string) {
	class, why := ReadOnly, ""
	for i := 1; i < len(w); i++ {
		switch t := w[i].text; t {
		case "-delete":
			class, why = Destructive, "find deletes"
		case "-fprint", "-fprint0", "-fprintf", "-fls":
			if i+1 < len(w) {
				e.writes(w[i+1], "by find")
			}
		case "-exec", "-execdir", "-ok", "-okdir":
			end := i + 1
			for end < len(w) && w[end].text != ";" && (w[end].text != "+" || w[end-1].text != "{}") {
				end++
			}
			if end > i+1 {
				e.words(w[i+1:end], depth+1)
			}
			i = end
		}
	}
	return class, why
}

// sed tells a script that only prints from one that writes.
func sed(w []word) (Class, string) {
	if has(w, "--in-place") {
		return WriteClass, "sed changes the files"
	}
	var scripts []string
	given := false
	for i := 1; i < len(w); i++ {
		t := w[i].text
		switch {
		case t == "--expression" || t == "--file" || strings.HasPrefix(t, "--file=") || t == "-f":
			if !strings.HasPrefix(t, "--expr") {
				return WriteClass, "sed runs a script from a file"
			}
			fallthrough
		case t == "-e":
			if i++; i < len(w) {
				scripts = append(scripts, w[i].text)
			}
			given = true
		case strings.HasPrefix(t, "--expression="):
			scripts, given = append(scripts, strings.TrimPrefix(t, "--expression=")), true
		case t == "--" || strings.HasPrefix(t, "--"):
		case len(t) > 1 && t[0] == '-':
			if j := strings.IndexAny(t[1:], "ifel"); j >= 0 {
				switch t[1+j] {
				case 'i':
					return WriteClass, "sed changes the files"
				case 'f':
					return WriteClass, "sed runs a script from a file"
				case 'e':
					given = true
					if rest := t[j+2:]; rest != "" {
						scripts = append(scripts, rest)
					} else if i++; i < len(w) {
						scripts = append(scripts, w[i].text)
					}
				case 'l':
					if t[j+2:] == "" {
						i++
					}
				}
			}
		case !given:
			scripts, given = append(scripts, t), true
		}
	}
	for _, s := range scripts {
		if !sedPrints(s) {
			return WriteClass, "sed's script writes or runs something, or is not understood"
		}
	}
	return ReadOnly, ""
}

// sedPrints reports whether it is sure that the script has no w, W or e, as a
// command or as a flag of s.
func sedPrints(s string) bool {
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case strings.IndexByte(" \t\n;{}!,~+$0123456789", c) >= 0:
			i++
		case c == '/' || c == '\\':
			d := c
			if c == '\\' {
				if i++; i >= len(s) {
					return false
				}
				d = s[i]
			}
			if i = sedUntil(s, i+1, d); i < 0 {
				return false
			}
			for i < len(s) && (s[i] == 'I' || s[i] == 'M') {
				i++
			}
		case c == 's' || c == 'y':
			if i+1 >= len(s) {
				return false
			}
			d := s[i+1]
			if i = sedUntil(s, i+2, d); i < 0 {
				return false
			}
			if i = sedUntil(s, i, d); i < 0 {
				return false
			}
			for i < len(s) && strings.IndexByte("gpiIMm0123456789", s[i]) >= 0 {
				i++
			}
			if i < len(s) && strings.IndexByte(" \t\n;}", s[i]) < 0 {
				return false // w, e, or a mistake
			}
		case strings.IndexByte("pPdDnNhHgGxqQ=lz", c) >= 0:
			i++
		default: // a, i, c, b, t, r, w, e ...: not looked into
			return false
		}
	}
	return true
}

// sedUntil returns the index behind the next d, or -1.
func sedUntil(s string, i int, d byte) int {
	class := false
	for ; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case class:
			class = s[i] != ']'
		case s[i] == d:
			return i + 1
		}
	}
	return -1
}

// awk tells a program that only prints from one that may do more. Its language
// is not parsed: any pipe, any output redirection counts.
func awk(w []word) (Class, string) {
	for i := 1; i < len(w); i++ {
		t := w[i].text
		switch {
		case t == "-F" || t == "-v" || t == "--assign" || t == "--field-separator":
			i++
			continue
		case strings.HasPrefix(t, "-F") || strings.HasPrefix(t, "-v"):
			continue
		case t == "-f" || t == "-i" || t == "-E" || t == "-l" || strings.HasPrefix(t, "--"):
			return WriteClass, "awk is given more than a program"
		case strings.HasPrefix(t, "-"):
			continue
		}
		text := strings.ReplaceAll(t, "||", "")
		printing := strings.Index(text, "print")
		if w[i].computed || strings.Contains(text, "system") || strings.Contains(text, "|") || strings.Contains(text, "@") ||
			printing >= 0 && strings.Contains(text[printing:], ">") {
			return WriteClass, "awk's program writes or runs something, or is not understood"
		}
		break // the files
	}
	return ReadOnly, ""
}
