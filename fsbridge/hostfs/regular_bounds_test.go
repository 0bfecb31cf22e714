package hostfs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// What is beyond a bound is refused before a parser sees it, and what only looks so passes.
func TestW5Bounds(t *testing.T) {
	b := hostfs.RegularSettings()
	tables := func(n int) string {
		var s strings.Builder
		for i := range n {
			fmt.Fprintf(&s, "[a%d]\n", i)
		}
		return s.String()
	}
	for name, c := range map[string]struct {
		text, says string
		line       int
	}{
		"empty":           {"", "", 0},
		"ordinary":        {"[undo]\nmax_steps = 10\n[network]\nallow = [\"a.b.c:443\", 'x']\n", "", 0},
		"bytes":           {strings.Repeat("#", b.Bytes+1), "more than 100 KiB", 0},
		"all bytes":       {strings.Repeat("#", b.Bytes), "", 0},
		"tables":          {tables(b.Keys), "", 0},
		"too many tables": {tables(b.Keys + 1), "more than 1000 keys", b.Keys + 1},
		"too many keys":   {strings.Repeat("a=1\n", b.Keys+1), "more than 1000 keys", b.Keys + 1},
		"inline":          {"x = {" + strings.Repeat("a=1,", b.Keys) + "}", "more than 1000 keys", 1},
		"dotted":          {"a" + strings.Repeat(".a", 50_000-1) + "=1", "within each other", 1},
		"quoted dots":     {"\"a\"" + strings.Repeat(" . \"a\"", b.Depth+1) + "=1", "within each other", 1},
		"deep table":      {"\n[" + strings.Repeat("a.", b.Depth+1) + "a]", "within each other", 2},
		"arrays":          {"a = " + strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000), "within each other", 1},
		"open arrays":     {"a = " + strings.Repeat("[", b.Depth+1), "within each other", 1},
		"inline tables":   {"a = " + strings.Repeat("{a=", b.Depth+1), "within each other", 1},
		"mixed":           {"a = " + strings.Repeat("[{a=", b.Depth/2) + "[", "within each other", 1},
		"as deep":         {"a = " + strings.Repeat("[", b.Depth) + strings.Repeat("]", b.Depth), "", 0},
		"strings":         {"a = [\"" + strings.Repeat("[.=", 5000) + "\", '" + strings.Repeat("[.=", 5000) + "']", "", 0},
		"long strings":    {"a = \"\"\"" + strings.Repeat("[.=\n\\\"\"\" ", 500) + "\"\"\"\"\"\nb = '''" + strings.Repeat("[.=\n''", 500) + "'''''", "", 0},
		"comment":         {"a = 1 # " + strings.Repeat("[.=", 5000) + "\n", "", 0},
		"after strings":   {"a = \"\"\"\n\n\"\"\"\nb = " + strings.Repeat("[", b.Depth+1), "within each other", 4},
		"unended string":  {"a = \"\nb = " + strings.Repeat("[", b.Depth+1), "within each other", 2},
		"escaped end":     {"a = \"\\\nb = " + strings.Repeat("[", b.Depth+1), "within each other", 2},
		"literal escape":  {"a = '\\'\nb = " + strings.Repeat("[", b.Depth+1), "within each other", 2},
		"quote in end":    {"a = \"\"\"\"\"\"\nb = " + strings.Repeat("[", b.Depth+1), "within each other", 2},
	} {
		err := b.Check([]byte(c.text))
		var over *hostfs.OverBoundsError
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.says != "" && (!errors.As(err, &over) || !strings.Contains(err.Error(), c.says) || over.Line != c.line):
			t.Errorf("%s: %+v", name, err)
		}
	}
}

// counted is what the parser finds in a text up to its first mistake: parts of names, and how many of them one name has.
func counted(text []byte) (keys, parts int) {
	var p unstable.Parser
	p.Reset(text)
	var count func(n *unstable.Node)
	name := func(n *unstable.Node) {
		here := 0
		for it := n.Key(); it.Next(); {
			here++
		}
		keys, parts = keys+here, max(parts, here)
	}
	count = func(n *unstable.Node) {
		if n.Kind == unstable.KeyValue {
			name(n)
			count(n.Value())
		}
		if n.Kind == unstable.Array || n.Kind == unstable.InlineTable {
			for it := n.Children(); it.Next(); {
				count(it.Node())
			}
		}
	}
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind == unstable.Table || e.Kind == unstable.ArrayTable {
			name(e)
		}
		count(e)
	}
	return keys, parts
}

// Whatever a text is, the parser finds no more in one that has passed than the bounds allow.
func FuzzBounds(f *testing.F) {
	for _, seed := range []string{
		"", "a.b.c = 1\n[x]\ny = {a=1, b=[1.5, {c=2}]}\n", "a = \"\"\"x\"\"\"\"\"\nb.c.d = 1", "a = '''x'''''\nb.c = 1", "a = \"\\\"\"\nb.c = 1", "\"\".\"\".'' = 1",
		"a = 1 # x\r\nb = 2", "[[a.b.c.d]]\n[a.b.c.d.e]\n", "a = \"x\n.b.c.d.e.f = 1", "a = [\n# ]\n1,\n[2]]\nb = 1", "a=\"\"\"\\", "a = ''''''\nb.b.b.b.b = 1", "'a\n'.b.c.d.e.f=1",
	} {
		f.Add([]byte(seed))
	}
	b := hostfs.RegularBounds{Bytes: 1 << 10, Keys: 6, Depth: 4}
	f.Fuzz(func(t *testing.T, text []byte) {
		if b.Check(text) != nil {
			return
		}
		if keys, parts := counted(text); keys > b.Keys || parts > b.Depth+1 {
			t.Errorf("%q passes with %d keys, %d of one name", text, keys, parts)
		}
	})
}
