package agents

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// table is a server in a TOML file: [section.name] with command and args. All that is
// not its own lines stays as it is.
type table struct {
	section, name string
	server        Server
	force         bool
}

// span is text[start:end].
type span struct{ start, end int }

// add puts the table at the end of the text, or sets command and args of ours.
func (t table) add(text []byte) ([]byte, error) {
	before, have, err := t.decode(text)
	if err != nil {
		return nil, err
	}
	out := text
	if have == nil {
		gap := ""
		if len(text) > 0 {
			gap = "\n"
			if !bytes.HasSuffix(text, []byte("\n")) {
				gap = "\n\n"
			}
		}
		out = append(bytes.Clone(text), gap+t.text()...)
	} else {
		if !t.ours(have) && !t.force {
			return nil, ErrForeign
		}
		for _, line := range t.lines() {
			if out, err = t.set(out, line[0], line[1]); err != nil {
				return nil, err
			}
		}
	}
	return out, t.checked(before, out, true)
}

// remove takes the table away, with those below it.
func (t table) remove(text []byte) ([]byte, error) {
	before, have, err := t.decode(text)
	if err != nil || have == nil {
		return text, err
	}
	if !t.ours(have) && !t.force {
		return nil, ErrForeign
	}
	spans, err := t.spans(text)
	if err != nil {
		return nil, err
	}
	out := bytes.Clone(text)
	for i := len(spans) - 1; i >= 0; i-- {
		s := spans[i]
		head, tail := out[:s.start], out[s.end:]
		if len(bytes.TrimSpace(tail)) == 0 || bytes.HasPrefix(tail, []byte("\n")) {
			if bytes.HasSuffix(head, []byte("\n\n")) {
				head = head[:len(head)-1]
			}
		}
		out = append(bytes.Clone(head), tail...)
	}
	return out, t.checked(before, out, false)
}

// lines are the keys of ours with their values.
func (t table) lines() [][2]string {
	command, _ := toml.Marshal(map[string]any{"command": t.server.Command}) // strings always can be
	args, _ := toml.Marshal(map[string]any{"args": t.server.Args})
	value := func(b []byte) string {
		_, v, _ := strings.Cut(strings.TrimSpace(string(b)), " = ")
		return v
	}
	return [][2]string{{"command", value(command)}, {"args", value(args)}}
}

func (t table) text() string {
	name, _ := toml.Marshal(map[string]any{t.name: 1})
	key, _, _ := strings.Cut(string(name), " = ")
	out := "[" + t.section + "." + key + "]\n"
	for _, line := range t.lines() {
		out += line[0] + " = " + line[1] + "\n"
	}
	return out
}

// decode reads the whole document, and of it the server; nil if it is not there.
func (t table) decode(text []byte) (doc, have map[string]any, err error) {
	if err := hostfs.RegularAgents().Check(text); err != nil {
		return nil, nil, fmt.Errorf("%w; nothing was changed", err)
	}
	if err := toml.Unmarshal(text, &doc); err != nil {
		var bad *toml.DecodeError
		if errors.As(err, &bad) {
			row, col := bad.Position()
			return nil, nil, fmt.Errorf("line %d, column %d: %s; nothing was changed", row, col, strings.TrimPrefix(bad.Error(), "toml: "))
		}
		return nil, nil, err
	}
	section, ok := doc[t.section].(map[string]any)
	if !ok && doc[t.section] != nil {
		return nil, nil, fmt.Errorf("%s is no table; nothing was changed", t.section)
	}
	if section[t.name] == nil {
		return doc, nil, nil
	}
	if have, ok = section[t.name].(map[string]any); !ok {
		have = map[string]any{}
	}
	return doc, have, nil
}

func (t table) ours(have map[string]any) bool {
	command, _ := have["command"].(string)
	words := []string{command}
	args, _ := have["args"].([]any)
	for _, a := range args {
		word, _ := a.(string)
		words = append(words, word)
	}
	return starts(words, "serve", t.server.Command)
}

// spans are the lines of the table and of those below it, from their headers to their
// last keys.
func (t table) spans(text []byte) ([]span, error) {
	var p unstable.Parser
	p.Reset(text)
	var spans []span
	within := false
	for p.NextExpression() {
		e := p.Expression()
		at, key := keyOf(e)
		if e.Kind == unstable.KeyValue && within {
			spans[len(spans)-1].end = endOfValue(text, at)
		}
		if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable {
			continue
		}
		if within = len(key) >= 2 && key[0] == t.section && key[1] == t.name; within {
			start := bytes.LastIndexByte(text[:at], '\n') + 1
			spans = append(spans, span{start, endOfLine(text, at)})
		}
	}
	if err := p.Error(); err != nil {
		return nil, err
	}
	if len(spans) == 0 {
		return nil, fmt.Errorf("%s.%s is not written as a table of its own: change it by hand", t.section, t.name)
	}
	return spans, nil
}

// set gives a key of the table a value.
func (t table) set(text []byte, key, value string) ([]byte, error) {
	var p unstable.Parser
	p.Reset(text)
	within, header := false, -1
	for p.NextExpression() {
		e := p.Expression()
		at, path := keyOf(e)
		switch {
		case e.Kind == unstable.Table:
			if within = len(path) == 2 && path[0] == t.section && path[1] == t.name; within {
				header = endOfLine(text, at)
			}
		case e.Kind == unstable.ArrayTable:
			within = false
		case within && len(path) == 1 && path[0] == key:
			line := key + " = " + value + "\n"
			end := endOfValue(text, at)
			if had := string(text[at:end]); sameValue(had, line) {
				return text, nil
			}
			return append(append(bytes.Clone(text[:at]), line...), text[end:]...), nil
		}
	}
	if header < 0 {
		return nil, fmt.Errorf("%s.%s is not written as a table of its own: change it by hand", t.section, t.name)
	}
	return append(append(bytes.Clone(text[:header]), key+" = "+value+"\n"...), text[header:]...), nil
}

func sameValue(a, b string) bool {
	var x, y map[string]any
	return toml.Unmarshal([]byte(a), &x) == nil && toml.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// checked is the last line of defence: nothing but the server may be other than before.
func (t table) checked(before map[string]any, out []byte, there bool) error {
	after, have, err := t.decode(out)
	if err != nil || (have != nil) != there || there && !t.ours(have) {
		return fmt.Errorf("the edit of %s.%s failed: %w", t.section, t.name, err)
	}
	for _, doc := range []map[string]any{before, after} {
		if section, ok := doc[t.section].(map[string]any); ok {
			if delete(section, t.name); len(section) == 0 {
				delete(doc, t.section)
			}
		}
	}
	if len(before)+len(after) > 0 && !reflect.DeepEqual(before, after) {
		return fmt.Errorf("the edit of %s.%s would change something else: change it by hand", t.section, t.name)
	}
	return nil
}

// keyOf is where the key of an expression begins, and its parts.
func keyOf(e *unstable.Node) (at int, parts []string) {
	at = -1
	for it := e.Key(); it.Next(); {
		if at < 0 {
			at = int(it.Node().Raw.Offset)
		}
		parts = append(parts, string(it.Node().Data))
	}
	return at, parts
}

func endOfLine(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// endOfValue is the end of the last line of the key and value that begin at a place:
// the first at which they can be read.
func endOfValue(text []byte, at int) int {
	for end := endOfLine(text, at); ; end = endOfLine(text, end) {
		var v map[string]any
		if end == len(text) || toml.Unmarshal(text[at:end], &v) == nil {
			return end
		}
	}
}
