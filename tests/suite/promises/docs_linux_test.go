package promises

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of promises into docs/security.md")

// table is what the document has of the promises.
func table() string {
	var b strings.Builder
	b.WriteString("| | jail | landlock | vm | none |\n|---|---|---|---|---|\n")
	for _, p := range promises() {
		b.WriteString("| " + p.sentence)
		for _, isolation := range columns()[0].values {
			b.WriteString(" | ")
			if why := p.not[isolation]; why != "" {
				b.WriteString("no: " + why)
			} else {
				b.WriteString("yes")
			}
		}
		b.WriteString(" |\n")
	}
	return b.String()
}

// TestDocumentation: docs/security.md promises what is tried, and nothing else.
func TestDocumentation(t *testing.T) {
	const file, begin, end = "../../../docs/security.md", "<!-- promises: go test ./tests/suite/promises -run Documentation -update -->\n", "<!-- end of promises -->\n"
	text, err := os.ReadFile(file)
	must(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	now, after, ends := strings.Cut(rest, end)
	if !ok || !ends || !strings.Contains(before, "## What is protected from what") || strings.Contains(before, "## How") {
		t.Fatalf("%s does not have the lines %q and %q", file, begin, end)
	}
	if now == table() {
		return
	}
	if *update {
		must(t, os.WriteFile(file, []byte(before+begin+table()+end+after), 0o644))
	}
	t.Errorf("%s is not current: go test ./tests/suite/promises -run Documentation -update", file)
}

// TestEachPromiseIsTried: each has a probe, an isolation that promises it, and a reason where one does not.
func TestEachPromiseIsTried(t *testing.T) {
	seen, chosen := map[string]bool{}, pairwise(cells("root", "sudo", "user"))
	for _, p := range promises() {
		tried := 0
		for _, c := range chosen {
			if p.applies(c) {
				tried++
			}
		}
		if p.id == "" || seen[p.id] || p.sentence == "" || p.inside == nil && p.outside == nil || tried == 0 {
			t.Errorf("%q: %q is tried in %d sessions", p.id, p.sentence, tried)
		}
		seen[p.id] = true
		for isolation := range p.not {
			if !strings.Contains(" jail landlock vm none ", " "+isolation+" ") {
				t.Errorf("%s: there is no isolation %q", p.id, isolation)
			}
		}
	}
}
