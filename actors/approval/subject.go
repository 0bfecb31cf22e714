package approval

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/codeagent/sandbox/fsbridge/texts"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// subject is a parsed pattern of paths or of uses of keys, or a rule of the network's.
type subject struct {
	names   [][]token // of a path, or the parts of a use; one that is just anything stands for any number of them
	host    policy.Rule
	network bool
}

// token is a byte, or one of these.
type token int16

const (
	anyText  token = -1 // "*": any text within a name
	anyNames token = -2 // "**" as a name: any number of names
)

func parseSubject(op Operation, text string) (subject, error) {
	if op == Connect {
		host, err := policy.ParseRule(text)
		return subject{host: host, network: true}, err
	}
	if op == Use {
		return parseUse(text)
	}
	bad := func(what string) error { return fmt.Errorf("path %q: %s", text, what) }
	if !strings.HasPrefix(text, "/") {
		return subject{}, bad("it is not absolute")
	}
	s := subject{}
	if text == "/" {
		return s, nil
	}
	for name := range strings.SplitSeq(text[1:], "/") {
		switch name {
		case "", ".", "..":
			return s, bad("an empty name, . or .. in it")
		case "**":
			s.names = append(s.names, []token{anyNames})
			continue
		}
		tokens, err := parseName(name)
		if err != nil {
			return s, bad(err.Error())
		}
		s.names = append(s.names, tokens)
	}
	return s, nil
}

// parseUse parses the use of a key: ssh:SHA256:KEY:sign:NAMESPACE, ssh:SHA256:KEY:login:USER[:SHA256:SERVER], gpg:GRIP:sign, or a pattern of such. A part is as the name in a
// path, which a colon ends; "**" stands for any number of parts.
func parseUse(text string) (s subject, err error) {
	parts := strings.Split(text, ":")
	if len(parts) < 2 || parts[0] != "ssh" && parts[0] != "gpg" {
		return s, fmt.Errorf("use %q: write ssh:SHA256:KEY:sign:NAMESPACE, ssh:SHA256:KEY:login:USER, gpg:GRIP:sign, or a pattern such as 'ssh:**:sign:git'", text)
	}
	for _, part := range parts {
		if part == "" {
			return s, fmt.Errorf("use %q: an empty part", text)
		}
		if part == "**" {
			s.names = append(s.names, []token{anyNames})
			continue
		}
		tokens, err := parseName(part)
		if err != nil {
			return s, fmt.Errorf("use %q: %w", text, err)
		}
		s.names = append(s.names, tokens)
	}
	return s, nil
}

func parseName(name string) (tokens []token, err error) {
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c == '*' && i+1 < len(name) && name[i+1] == '*':
			return nil, fmt.Errorf("** stands for whole names: it has none beside it")
		case c == '*':
			tokens = append(tokens, anyText)
		case c != '\\':
			tokens = append(tokens, token(c))
		case i+1 < len(name) && (name[i+1] == '*' || name[i+1] == '\\'):
			i++
			tokens = append(tokens, token(name[i]))
		case i+3 < len(name) && name[i+1] == 'x':
			n, err := strconv.ParseUint(name[i+2:i+4], 16, 8)
			if err != nil || n == 0 || n == '/' {
				return nil, fmt.Errorf("%q is no byte of a name", name[i:i+4])
			}
			i += 3
			tokens = append(tokens, token(n))
		default:
			return nil, fmt.Errorf(`behind a backslash goes *, \ or xNN`)
		}
	}
	return tokens, nil
}

// Exactly is the subject that is just this path, whatever bytes are in it. What could
// act on a terminal or be mistaken for something else is written as \xNN.
func Exactly(p string) string {
	var b strings.Builder
	for i := 0; i < len(p); {
		r, n := utf8.DecodeRuneInString(p[i:])
		switch {
		case r == '*' || r == '\\':
			b.WriteByte('\\')
			b.WriteByte(p[i])
		case !texts.Clean(r):
			for _, c := range []byte(p[i : i+n]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		default:
			b.WriteString(p[i : i+n])
		}
		i += n
	}
	return b.String()
}

// Below is the subject that is a directory and everything in it.
func Below(dir string) string { return strings.TrimSuffix(Exactly(dir), "/") + "/**" }

// Whole reports whether a question about this path can be decided: it is absolute and
// has no name to resolve.
func whole(p string) bool { return path.IsAbs(p) && path.Clean(p) == p && !strings.Contains(p, "\x00") }

// covers reports whether s stands for everything that o stands for. It is transitive.
func (s subject) covers(o subject) bool {
	if s.network || o.network {
		return s.network && o.network && s.host.Contains(o.host)
	}
	return cover(s.names, o.names, func(n []token) bool { return n[0] == anyNames }, func(p, n []token) bool {
		return cover(p, n, func(t token) bool { return t == anyText }, func(a, b token) bool { return a == b })
	})
}

// cover matches a list with another one. An element that is many stands for any number of
// elements, also for such ones; any other stands for one that is not many. It takes time in
// the product of the lengths.
func cover[T any](pattern, list []T, many func(T) bool, one func(p, e T) bool) bool {
	at, star, mark := 0, -1, 0
	for i := 0; i < len(list); {
		switch {
		case at < len(pattern) && many(pattern[at]):
			star, mark = at, i
			at++
		case at < len(pattern) && !many(list[i]) && one(pattern[at], list[i]):
			at++
			i++
		case star >= 0:
			mark++
			at, i = star+1, mark
		default:
			return false
		}
	}
	for at < len(pattern) && many(pattern[at]) {
		at++
	}
	return at == len(pattern)
}
