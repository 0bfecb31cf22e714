package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// splice puts text in place of src[start:end].
type splice struct {
	start, end int
	text       string
}

// apply makes the splices, which are in order and do not overlap.
func apply(src []byte, splices ...splice) []byte {
	var out []byte
	at := 0
	for _, s := range splices {
		out = append(out, src[at:s.start]...)
		out = append(out, s.text...)
		at = s.end
	}
	return append(out, src[at:]...)
}

// jsoncGet returns the value at path, without comments and white space; nil if it is
// not there. A document of white space is an empty object.
func jsoncGet(src []byte, d jsoncDialect, path ...string) ([]byte, error) {
	if blank(src) {
		return nil, nil
	}
	root, err := parse(src, d)
	if err != nil {
		return nil, err
	}
	n, rest, err := jsoncFind(src, root, path)
	if err != nil || len(rest) > 0 {
		return nil, err
	}
	return jsoncPlain(src[n.start:n.end])
}

// jsoncSet makes the member at path have a value, which is plain JSON. Objects on the
// way there are made if they are missing. It returns src itself when the member
// has that value. Errors are *SyntaxError, also for a member on the way that is
// no object or is there twice.
func jsoncSet(src []byte, d jsoncDialect, value []byte, path ...string) ([]byte, error) {
	if !json.Valid(value) || len(path) == 0 {
		return nil, fmt.Errorf("jsonc: cannot set %q to %q", path, value)
	}
	if blank(src) {
		made, err := jsoncSet([]byte("{}\n"), d, value, path...)
		return append(bytes.Clone(src), made...), err
	}
	root, err := parse(src, d)
	if err != nil {
		return nil, err
	}
	n, rest, err := jsoncFind(src, root, path)
	if err != nil {
		return nil, err
	}
	style := styleOf(src, root)
	var out []byte
	if len(rest) > 0 {
		nested := value
		for _, key := range slices.Backward(rest[1:]) {
			nested = slices.Concat([]byte("{"), quote(key), []byte(":"), nested, []byte("}"))
		}
		out = style.insert(src, n, string(quote(rest[0]))+": ", nested)
	} else {
		have, err := jsoncPlain(src[n.start:n.end])
		if err != nil {
			return nil, err
		}
		if same(have, value) {
			return src, nil
		}
		out = apply(src, splice{n.start, n.end, style.format(value, lineIndent(src, n.start), bytes.ContainsAny(src, "\n"))})
	}
	return checked(out, d, value, path)
}

// jsoncRemove takes the member at path away. It returns src itself when there is
// none. Comments stay.
func jsoncRemove(src []byte, d jsoncDialect, path ...string) ([]byte, error) {
	if blank(src) || len(path) == 0 {
		return src, nil
	}
	root, err := parse(src, d)
	if err != nil {
		return nil, err
	}
	n, rest, err := jsoncFind(src, root, path[:len(path)-1])
	if err != nil || len(rest) > 0 {
		return src, err
	}
	i, err := index(src, n, path[len(path)-1])
	if err != nil || i < 0 {
		return src, err
	}
	return checked(remove(src, n, i), d, nil, path)
}

// jsoncItems returns the elements of the array at path, as [jsoncGet] returns values; none if
// it is not there.
func jsoncItems(src []byte, d jsoncDialect, path ...string) ([][]byte, error) {
	n, ok, err := array(src, d, path)
	if err != nil || !ok {
		return nil, err
	}
	var items [][]byte
	for _, m := range n.members {
		item, err := jsoncPlain(src[m.value.start:m.value.end])
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// jsoncAppend adds a value, which is plain JSON, to the end of the array at path. The array,
// and objects on the way there, are made if they are missing.
func jsoncAppend(src []byte, d jsoncDialect, value []byte, path ...string) ([]byte, error) {
	n, ok, err := array(src, d, path)
	if err != nil {
		return nil, err
	}
	if !ok {
		return jsoncSet(src, d, slices.Concat([]byte("["), value, []byte("]")), path...)
	}
	if !json.Valid(value) {
		return nil, fmt.Errorf("jsonc: cannot append %q to %q", value, path)
	}
	root, err := parse(src, d)
	if err != nil {
		return nil, err
	}
	want, err := jsoncItems(src, d, path...)
	if err != nil {
		return nil, err
	}
	return checkedItems(styleOf(src, root).insert(src, n, "", value), d, append(want, value), path)
}

// jsoncRemoveItem takes element i of the array at path away. Comments stay.
func jsoncRemoveItem(src []byte, d jsoncDialect, i int, path ...string) ([]byte, error) {
	want, err := jsoncItems(src, d, path...)
	if err != nil {
		return nil, err
	}
	if i < 0 || i >= len(want) {
		return nil, fmt.Errorf("jsonc: %q has no element %d", path, i)
	}
	n, _, err := array(src, d, path)
	if err != nil {
		return nil, err
	}
	return checkedItems(remove(src, n, i), d, slices.Delete(want, i, i+1), path)
}

// array finds the array at path.
func array(src []byte, d jsoncDialect, path []string) (node, bool, error) {
	if blank(src) {
		return node{}, false, nil
	}
	root, err := parse(src, d)
	if err != nil {
		return node{}, false, err
	}
	n, rest, err := jsoncFind(src, root, path)
	if err != nil || len(rest) > 0 {
		return node{}, false, err
	}
	if !n.array {
		return node{}, false, errorAt(src, n.start, strconv.Quote(path[len(path)-1])+" is not an array")
	}
	return n, true, nil
}

// checkedItems is [checked] for an array.
func checkedItems(out []byte, d jsoncDialect, want [][]byte, path []string) ([]byte, error) {
	have, err := jsoncItems(out, d, path...)
	if err != nil || !slices.EqualFunc(have, want, same) {
		return nil, fmt.Errorf("jsonc: the edit of %q failed: %w", path, err)
	}
	return out, nil
}

// checked is the last line of defence: what was made must be what was wanted.
func checked(out []byte, d jsoncDialect, want []byte, path []string) ([]byte, error) {
	have, err := jsoncGet(out, d, path...)
	if err != nil || !same(have, want) {
		return nil, fmt.Errorf("jsonc: the edit of %q failed: %w", path, err)
	}
	return out, nil
}

func blank(src []byte) bool {
	return len(bytes.Trim(bytes.TrimPrefix(src, []byte("\ufeff")), " \t\r\n")) == 0
}

// jsoncFind follows path as far as it goes: rest is what is missing below n.
func jsoncFind(src []byte, n node, path []string) (node, []string, error) {
	for at := 0; ; at++ {
		if !n.object && (at < len(path) || at == 0) {
			what := "the document"
			if at > 0 {
				what = strconv.Quote(path[at-1])
			}
			return n, nil, errorAt(src, n.start, what+" is not an object")
		}
		if at == len(path) {
			return n, nil, nil
		}
		i, err := index(src, n, path[at])
		if err != nil {
			return n, nil, err
		}
		if i < 0 {
			return n, path[at:], nil
		}
		n = n.members[i].value
	}
}

// index finds a member of an object, or -1.
func index(src []byte, n node, key string) (int, error) {
	i := slices.IndexFunc(n.members, func(m member) bool { return m.key == key })
	if i < 0 {
		return i, nil
	}
	for _, m := range n.members[i+1:] {
		if m.key == key {
			return i, errorAt(src, m.start, fmt.Sprintf("%q is there twice", key))
		}
	}
	return i, nil
}

// jsoncPlain is a value as plain JSON on one line.
func jsoncPlain(src []byte) ([]byte, error) { return hujson.Minimize(readable(src)) }

// same compares values by what they mean; numbers by their digits. Nil is only
// the same as nil.
func same(a, b []byte) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	decode := func(src []byte) (v any, err error) {
		dec := json.NewDecoder(bytes.NewReader(src))
		dec.UseNumber()
		err = dec.Decode(&v)
		return v, err
	}
	x, err1 := decode(a)
	y, err2 := decode(b)
	if err1 != nil || err2 != nil {
		return false
	}
	xs, err1 := json.Marshal(x)
	ys, err2 := json.Marshal(y)
	return err1 == nil && err2 == nil && bytes.Equal(xs, ys)
}

// style is how a document is laid out.
type style struct{ unit, newline string }

func styleOf(src []byte, root node) style {
	s := style{unit: "  ", newline: "\n"}
	if i := bytes.IndexByte(src, '\n'); i > 0 && src[i-1] == '\r' {
		s.newline = "\r\n"
	}
	if len(root.members) > 0 {
		if in, ok := ownLine(src, root.members[0].start); ok && in != "" {
			s.unit = strings.TrimPrefix(in, lineIndent(src, root.start))
		}
	}
	if s.unit == "" {
		s.unit = "  "
	}
	return s
}

// ownLine returns the white space before at, if there is nothing else on its
// line.
func ownLine(src []byte, at int) (string, bool) {
	line := src[bytes.LastIndexByte(src[:at], '\n')+1 : at]
	if len(bytes.Trim(line, " \t")) > 0 || len(line) == at {
		return "", false
	}
	return string(line), true
}

// lineIndent is the white space at the begin of the line of at.
func lineIndent(src []byte, at int) string {
	line := src[bytes.LastIndexByte(src[:at], '\n')+1 : at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// format lays a value out over lines, the first of which has been indented.
func (s style) format(value []byte, indent string, lines bool) string {
	var out bytes.Buffer
	if !lines {
		_ = json.Compact(&out, value) // it is valid
		return out.String()
	}
	_ = json.Indent(&out, value, indent, s.unit)
	return strings.ReplaceAll(out.String(), "\n", s.newline)
}

// insert adds a member to an object, or an element to an array; key is what stands
// before its value.
func (s style) insert(src []byte, n node, key string, value []byte) []byte {
	closing := n.end - 1
	// Behind everything that is there, comments too.
	body := bytes.TrimRight(src[:closing], " \t\r\n")
	at := max(len(body), n.start+1)
	inside := src[n.start+1 : closing]
	outer := lineIndent(src, n.start)
	before, indent, lines := "", outer+s.unit, true
	switch count := len(n.members); {
	case count > 0:
		last := n.members[count-1]
		in, own := ownLine(src, n.members[0].start)
		if own {
			indent, before = in, s.newline+in
		} else {
			lines, before = bytes.ContainsAny(inside, "\n"), s.newline+indent
			if !lines {
				before = " "
			}
		}
		member := before + key + s.format(value, indent, lines)
		if last.comma >= 0 {
			return apply(src, splice{at, at, member + ","})
		}
		return apply(src, splice{last.value.end, last.value.end, ","}, splice{at, at, member})
	case len(bytes.TrimSpace(inside)) == 0:
		at = n.start + 1
		lines = bytes.ContainsAny(src, "\n") || n.start == 0
		if !lines {
			return apply(src, splice{at, closing, key + s.format(value, "", false)})
		}
		member := s.newline + indent + key + s.format(value, indent, true) + s.newline + outer
		return apply(src, splice{at, closing, member})
	}
	// Nothing but comments.
	member := s.newline + indent + key + s.format(value, indent, true)
	if rest := bytes.TrimLeft(src[at:], " \t\r"); rest[0] != '\n' {
		member += s.newline + outer
	}
	return apply(src, splice{at, at, member})
}

func quote(key string) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(key) // a string always can be
	return bytes.TrimRight(out.Bytes(), "\n")
}

// lineComment reports whether the last comment in src[from:to] ends with its
// line: what is put behind it needs a new one.
func lineComment(src []byte, from, to int) (ends bool) {
	for from < to {
		n := comment(src[from:to])
		if n > 0 {
			ends = src[from+1] == '/'
		}
		from += max(n, 1)
	}
	return ends
}

// remove takes member i of an object, or element i of an array, away.
func remove(src []byte, n node, i int) []byte {
	m := n.members[i]
	previous := n.start + 1
	if i > 0 {
		previous = n.members[i-1].comma + 1
	}
	start := len(bytes.TrimRight(src[:m.start], " \t\r\n"))
	var cuts []splice
	if m.comma < 0 && i > 0 { // the comma before it would be left over
		c := n.members[i-1].comma
		cuts = append(cuts, splice{c, c + 1, ""})
	}
	end := m.value.end
	if lineComment(src, previous, start) {
		if rest := bytes.TrimLeft(src[end:], " \t\r,"); len(rest) > 0 && rest[0] != '\n' {
			start = m.start // a line comment must not swallow what follows
		}
	}
	cuts = append(cuts, splice{start, end, ""})
	if m.comma >= 0 {
		cuts = append(cuts, splice{m.comma, m.comma + 1, ""})
	}
	if len(n.members) == 1 && len(bytes.TrimSpace(src[n.start+1:start])) == 0 {
		if tail := src[end : n.end-1]; len(bytes.Trim(tail, " \t\r\n,")) == 0 {
			return apply(src, splice{n.start + 1, n.end - 1, ""})
		}
	}
	return apply(src, cuts...)
}
