package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of keys into docs/configuration.md")

const docs = "../../../../docs"

// TestExample loads the annotated example: it has every key, with its default.
func TestExample(t *testing.T) {
	file := filepath.Join(docs, FileName)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := New()
	if err := s.addText(file, b, User); err != nil {
		t.Fatal(err)
	}
	def := Default()
	for _, k := range s.keys {
		if have, want := text(k.field(&s.Config)), text(k.field(&def)); have != want {
			t.Errorf("the example has %s = %s; the default is %s", k.Name, have, want)
		}
		if s.Origin(k.Name)[0].Level == FromDefault && !slices.Contains([]string{"locked", "directory"}, k.Name) {
			t.Errorf("the example lacks %s", k.Name)
		}
	}
	// What is commented out is right too.
	var lines []string
	for line := range strings.Lines(string(b)) {
		for _, commented := range []string{"# locked =", "# [[", "# path =", "# label =", "# access ="} {
			if strings.HasPrefix(line, commented) {
				lines = append(lines, line[2:])
			}
		}
	}
	if len(lines) != 5 {
		t.Fatalf("commented lines: %q", lines)
	}
	if err := New().addText(file, []byte(strings.Join(lines, "")), Organisation); err != nil {
		t.Error(err)
	}
}

func TestReference(t *testing.T) {
	file := filepath.Join(docs, "configuration.md")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| key | default | flag | project | |\n|---|---|---|---|---|\n")
	def := Default()
	for _, k := range Keys() {
		name := ""
		if k.Flag != "" {
			name = "`--" + k.Flag + "`"
		}
		rule := k.Rule.String()
		if k.only != 0 {
			rule = "only the " + k.only.String()
		} else if k.Rule == Tighten && k.Enum != nil && k.tighter == nil {
			rule += ": " + strings.Join(k.Enum, " < ")
		}
		fmt.Fprintf(&table, "| `%s` | `%s` | %s | %s | %s |\n", k.Name, text(k.field(&def)), name, rule, strings.ReplaceAll(k.Doc, "`", ""))
	}
	const begin, end = "-update -->\n", "<!-- end -->"
	before, rest, ok := strings.Cut(string(b), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the keys", file)
	}
	want := before + begin + "\n" + table.String() + "\n" + end + after
	if want == string(b) {
		return
	}
	if !*update {
		t.Fatalf("%s is not current: go test ./cmd/sandbox/internal/config -update", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
