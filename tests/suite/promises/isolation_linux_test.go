package promises

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
)

// asking are the ways in which a feature is asked for, as text.
func asking(f hypervisor.Feature) string {
	var out []string
	for _, w := range f.Wishes {
		flag, key := "", "`"+w.Key+"`"
		if w.Flag != "" {
			flag = "`--" + w.Flag + "` "
		}
		if len(w.Values) > 0 {
			flag, key = strings.TrimSuffix(flag, "` ")+" "+strings.Join(w.Values, "\\|")+"` ", "`"+w.Key+"`"
		}
		out = append(out, flag+"("+key+")")
	}
	return strings.Join(out, ", ")
}

// wordOf is an answer in the table.
func wordOf(a hypervisor.Answer) string {
	switch {
	case a.Has && a.Text != "":
		return "yes*"
	case a.Has:
		return "yes"
	case a.Laxer:
		return "no!"
	}
	return "no"
}

// isolationTable is what docs/isolation.md has of the table of features: the answers, and below them the conditions and reasons.
func isolationTable() string {
	var b, why strings.Builder
	b.WriteString("| | asked for by |")
	for _, s := range hypervisor.Setups() {
		fmt.Fprintf(&b, " %s, %s |", s.Isolation, s.Bridge)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(hypervisor.Setups())) + "\n")
	for _, f := range hypervisor.Features() {
		fmt.Fprintf(&b, "| %s: %s | %s |", f.Name, f.What, asking(f))
		texts := map[string][]string{}
		var order []string
		for i, a := range f.On {
			word := wordOf(a)
			b.WriteString(" " + word + " |")
			if a.Text == "" {
				continue
			}
			s := hypervisor.Setups()[i]
			place := s.Isolation
			if differs(f, i) {
				place += " with " + string(s.Bridge)
			}
			said := word + ": " + a.Text
			if texts[said] == nil {
				order = append(order, said)
			}
			if !slices.Contains(texts[said], place) {
				texts[said] = append(texts[said], place)
			}
		}
		b.WriteString("\n")
		if len(order) == 0 {
			continue
		}
		fmt.Fprintf(&why, "- **%s**\n", f.Name)
		for _, said := range order {
			fmt.Fprintf(&why, "  - %s: %s\n", strings.Join(texts[said], ", "), said)
		}
	}
	return b.String() + "\nConditions (`yes*`) and reasons:\n\n" + why.String()
}

// differs reports whether the bridge decides about the answer of a setup.
func differs(f hypervisor.Feature, i int) bool {
	for j, s := range hypervisor.Setups() {
		if s.Isolation == hypervisor.Setups()[i].Isolation && f.On[j] != f.On[i] {
			return true
		}
	}
	return false
}

// TestIsolationDocument: docs/isolation.md has the table of features.
func TestIsolationDocument(t *testing.T) {
	const file, begin, end = "../../../docs/isolation.md", "<!-- features: go test ./tests/suite/promises -run IsolationDocument -update -->\n", "<!-- end of features -->\n"
	text, err := os.ReadFile(file)
	must(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	now, after, ends := strings.Cut(rest, end)
	if !ok || !ends {
		t.Fatalf("%s does not have the lines %q and %q", file, begin, end)
	}
	if now == isolationTable() {
		return
	}
	if *update {
		must(t, os.WriteFile(file, []byte(before+begin+isolationTable()+end+after), 0o644))
	}
	t.Errorf("%s is not current: go test ./tests/suite/promises -run IsolationDocument -update", file)
}
