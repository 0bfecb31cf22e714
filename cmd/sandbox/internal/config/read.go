package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// entry is one key of a file with the value that the TOML decoder gave it.
type entry struct {
	name  string
	line  int
	value any
}

// parse returns the file's entries in the order of their lines. A table that is
// none of ours, or stands in a key's place, is one entry, with its lines left
// out.
func parse(keys []Key, file string, b []byte) (entries []entry, err error) {
	var over *hostfs.OverBoundsError
	if err := hostfs.RegularSettings().Check(b); errors.As(err, &over) && over.Line > 0 {
		return nil, &Mistake{File: file, Line: over.Line, Err: fmt.Errorf("%w: it is not read", err)}
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w: it is not read", file, err)
	}
	var values map[string]any
	if err := toml.Unmarshal(b, &values); err != nil {
		var bad *toml.DecodeError
		if errors.As(err, &bad) {
			row, col := bad.Position()
			return nil, &Mistake{File: file, Line: row, Column: col, Err: errors.New(strings.TrimPrefix(bad.Error(), "toml: "))}
		}
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	lines, err := positions(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var walk func(prefix string, table map[string]any)
	walk = func(prefix string, table map[string]any) {
		for name, v := range table {
			full := prefix + name
			if sub, ok := v.(map[string]any); ok && isTable(keys, full) {
				walk(full+".", sub)
				continue
			}
			entries = append(entries, entry{full, lines[full], v})
		}
	}
	walk("", values)
	slices.SortFunc(entries, func(a, b entry) int {
		if a.line != b.line {
			return a.line - b.line
		}
		return strings.Compare(a.name, b.name)
	})
	return entries, nil
}

// positions returns the line of each dotted key and table. A section that is
// there several times has its first line.
func positions(b []byte) (map[string]int, error) {
	lines := map[string]int{}
	line, at := 1, 0 // keys come in the order of the text
	var p unstable.Parser
	p.Reset(b)
	note := func(prefix string, n *unstable.Node) string {
		full, it := prefix, n.Key()
		for it.Next() {
			full += string(it.Node().Data)
			if next := int(it.Node().Raw.Offset); next > at {
				line, at = line+bytes.Count(b[at:next], []byte("\n")), next
			}
			if _, seen := lines[full]; !seen {
				lines[full] = line
			}
			full += "."
		}
		return full
	}
	var keyValue func(prefix string, n *unstable.Node)
	keyValue = func(prefix string, n *unstable.Node) {
		full := note(prefix, n)
		if v := n.Value(); v.Kind == unstable.InlineTable {
			for it := v.Children(); it.Next(); {
				keyValue(full, it.Node())
			}
		}
	}
	prefix := ""
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			prefix = note("", e)
		case unstable.KeyValue:
			keyValue(prefix, e)
		}
	}
	return lines, p.Error()
}

// missing reports whether err says that a file is not there.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
