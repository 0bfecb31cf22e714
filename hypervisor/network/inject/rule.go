package inject

import (
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Rule adds a header to the requests for one host.
type Rule struct {
	host, header, template string
	variables              []string
	value                  string   // the header's
	secrets                []string // the variables' values
}

// String returns the rule as it was written, with the variables' names.
func (r Rule) String() string { return r.host + ": " + r.header + ": " + r.template }

// GoString is String.
func (r Rule) GoString() string { return r.String() }

// framing are headers that say where a request ends or goes.
var framing = []string{"Host", "Connection", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Keep-Alive", "Proxy-Connection", "Expect"}

// Parse understands HOST: HEADER: VALUE without looking a variable up. VALUE must have a
// variable, $NAME or ${NAME}: a secret itself would stand in configurations and lists
// of processes. $$ is a dollar.
func Parse(text string) (Rule, error) {
	r, err := parse(text)
	if err != nil {
		return Rule{}, fmt.Errorf("inject: %w; write 'HOST: HEADER: VALUE', with $NAME for a variable in VALUE", err)
	}
	return r, nil
}

func parse(text string) (r Rule, err error) {
	host, rest, ok := strings.Cut(text, ":")
	header, value, also := strings.Cut(rest, ":")
	if !ok || !also {
		return r, errors.New("two colons are needed")
	}
	r.host = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(host), "."))
	r.header = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(header))
	r.template = strings.TrimSpace(value)
	switch {
	case !isHost(r.host):
		return r, fmt.Errorf("%q is not the name of one host", r.host)
	case !httpguts.ValidHeaderFieldName(r.header):
		return r, errors.New("what follows the host is not the name of a header")
	case slices.Contains(framing, r.header):
		return r, fmt.Errorf("the header %s cannot be set", r.header)
	}
	_, err = expand(r.template, func(name string) string { r.variables = append(r.variables, name); return "" })
	if err == nil && len(r.variables) == 0 {
		err = errors.New("the value has no variable, and a secret does not belong into a command line or a file")
	}
	return r, err
}

// isHost tells whether it is a domain name with a dot, and no address and no pattern.
func isHost(name string) bool {
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	last := labels[len(labels)-1]
	return len(labels) > 1 && len(name) <= 253 && (last[0] < '0' || last[0] > '9')
}

// Resolve fills in the variables' values; the error names the variable.
func (r Rule) Resolve(getenv func(string) string) (Rule, error) {
	for _, v := range r.variables {
		if getenv(v) == "" {
			return Rule{}, fmt.Errorf("inject: for %s the variable %s is needed, and it is not set in the environment in which the session starts", r.host, v)
		}
	}
	value, err := expand(r.template, getenv)
	if err != nil {
		return Rule{}, err
	}
	if !httpguts.ValidHeaderFieldValue(value) {
		return Rule{}, fmt.Errorf("inject: for %s the value that %s gives cannot stand in a header (a line break?)", r.host, strings.Join(r.variables, ", "))
	}
	r.value = value
	r.secrets = nil
	for _, v := range r.variables {
		r.secrets = append(r.secrets, getenv(v))
	}
	return r, nil
}

// expand replaces variables.
func expand(s string, value func(name string) string) (string, error) {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, "$")
		b.WriteString(before)
		if !ok {
			return b.String(), nil
		}
		if s = after; strings.HasPrefix(s, "$") {
			b.WriteByte('$')
			s = s[1:]
			continue
		}
		inner, braces := strings.CutPrefix(s, "{")
		n := 0
		for n < len(inner) && isNameByte(inner[n], n) {
			n++
		}
		name, rest := inner[:n], inner[n:]
		if braces {
			if rest, ok = strings.CutPrefix(rest, "}"); !ok {
				return "", errors.New("a brace behind $ is not closed")
			}
		}
		if name == "" {
			return "", errors.New("behind $ goes the name of a variable; $$ is a dollar")
		}
		b.WriteString(value(name))
		s = rest
	}
}

func isNameByte(c byte, at int) bool {
	return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || at > 0 && c >= '0' && c <= '9'
}
