package mcp

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/mcp.md anew")

// The table of tools in docs/mcp.md is what a client is told.
func TestToolsAreDocumented(t *testing.T) {
	const file, begin, end = "../../../docs/mcp.md", "<!-- tools -->\n", "<!-- end -->"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no %s", file, begin)
	}
	text := before + begin + toolTable(t) + end + after
	if text == string(b) {
		return
	}
	if !*update {
		t.Fatalf("%s is not current: go test ./actors/frontend/mcp -run Documented -update", file)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func toolTable(t *testing.T) string {
	l, err := connect(t, newServer(t, newFake(t), nil), nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	table := "| tool | does | arguments (those in bold are required) | hints |\n|---|---|---|---|\n"
	for _, tool := range l.Tools {
		schema := tool.InputSchema.(map[string]any)
		required, _ := schema["required"].([]any)
		var must, may []string
		for name := range schema["properties"].(map[string]any) {
			switch {
			case slices.Contains(required, any(name)):
				must = append(must, "**`"+name+"`**")
			case name != "directory":
				may = append(may, "`"+name+"`")
			}
		}
		slices.Sort(must)
		slices.Sort(may)
		a := tool.Annotations
		var hints []string
		for _, h := range []struct {
			word string
			set  bool
		}{{"read-only", a.ReadOnlyHint}, {"destructive", *a.DestructiveHint}, {"idempotent", a.IdempotentHint}, {"open world", *a.OpenWorldHint}} {
			if h.set {
				hints = append(hints, h.word)
			}
		}
		table += fmt.Sprintf("| `%s` | %s | %s | %s |\n", tool.Name, tool.Title, strings.Join(append(must, may...), ", "), strings.Join(hints, ", "))
	}
	return table
}
