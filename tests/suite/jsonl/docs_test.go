package jsonl

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/codeagent/sandbox/actors/frontend/stdio"
)

const docsFile = "../../../docs/stdio.md"

// noExample are messages that no transcript has: only a machine has a network.
var noExample = []string{stdio.EventNetwork}

// TestDocs compares what docs/stdio.md takes from the code and the transcripts:
// the fields and an example of every message, the error codes, the tour. With
// -update it is written anew.
func TestDocs(t *testing.T) {
	schemas, err := stdio.Schemas(false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	d := &docs{t: t, schemas: schemas, transcripts: readTranscripts(t), shared: map[string]string{}}
	for _, o := range objects {
		d.shared[fingerprint(d.at(o.schema, o.path))] = o.name
	}
	want := map[string]bool{"tour": true, "codes": true}
	for name := range schemas {
		if op, ok := strings.CutSuffix(name, ".request"); ok {
			want["request "+op] = true
		} else if strings.HasPrefix(name, "event.") {
			want["event "+name] = true
		}
	}
	for _, o := range objects {
		want["object "+o.name] = true
	}
	part := regexp.MustCompile(`(?s)<!-- ([a-z][a-z_. ]*) -->\n.*?<!-- end -->`)
	text := part.ReplaceAllStringFunc(string(b), func(old string) string {
		what := part.FindStringSubmatch(old)[1]
		if !want[what] {
			t.Errorf("%s: there is no %q, or it is there twice", docsFile, what)
		}
		delete(want, what)
		return "<!-- " + what + " -->\n\n" + d.part(what) + "\n<!-- end -->"
	})
	for what := range want {
		t.Errorf("%s says nothing of %q: <!-- %[2]s --> <!-- end -->", docsFile, what)
	}
	if text == string(b) || t.Failed() {
		return
	}
	if !*update {
		t.Fatalf("%s is not current: go test ./tests/suite/jsonl -update", docsFile)
	}
	if err := os.WriteFile(docsFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// objects are those that several messages have: described once.
var objects = []struct {
	name, schema string
	path         []string
}{
	{"step", "undo.history.response", []string{"steps", "[]"}},
	{"barrier", "undo.history.response", []string{"steps", "[]", "barriers", "[]"}},
	{"directory", "session.start.response", []string{"working_directories", "[]"}},
	{"pending", "session.status.response", []string{"pending", "[]"}},
	{"command result", "agent.execute.response", nil},
	{"undo result", "undo.rollback.response", nil},
	{"limits", "undo.configure.response", nil},
}

type docs struct {
	t           *testing.T
	schemas     map[string]*jsonschema.Schema
	transcripts []*transcript
	shared      map[string]string // names of objects by fingerprint
}

// part writes one generated part.
func (d *docs) part(what string) string {
	kind, name, _ := strings.Cut(what, " ")
	switch kind {
	case "tour":
		return "```\n" + strings.TrimSpace(d.transcripts[0].public()) + "\n```\n"
	case "codes":
		return codes()
	case "object":
		for _, o := range objects {
			if o.name == name {
				return d.table(d.at(o.schema, o.path), false)
			}
		}
	case "request":
		return d.request(name)
	case "event":
		return d.table(d.at(name, nil), false) + d.example(name, d.eventExample(name))
	}
	return ""
}

// public is the conversation as a reader sees it.
func (tr *transcript) public() string {
	var b strings.Builder
	for _, l := range tr.lines {
		switch l.kind {
		case '?':
		case 0:
			b.WriteByte('\n')
		default:
			b.WriteString(string(l.kind) + " " + l.text + "\n")
		}
	}
	return b.String()
}

func (d *docs) request(op string) string {
	var b strings.Builder
	if p := d.at(op+".request", nil); len(p.Properties) > 0 {
		b.WriteString(d.table(p, true))
	} else {
		b.WriteString("No fields.\n")
	}
	answer := d.at(op+".response", nil)
	switch name := d.shared[fingerprint(answer)]; {
	case name != "":
		fmt.Fprintf(&b, "\nThe answer is a %s.\n", link(name))
	case len(answer.Properties) == 0:
		b.WriteString("\nThe answer has no fields.\n")
	default:
		b.WriteString("\nAnswer:\n\n" + d.table(answer, false))
	}
	return b.String() + d.example(op, d.requestExample(op))
}

// at goes into a message's schema: the payload, and from there by names.
func (d *docs) at(name string, path []string) *jsonschema.Schema {
	d.t.Helper()
	if d.schemas[name] == nil {
		d.t.Fatalf("no schema %s", name)
	}
	s := d.schemas[name].Properties["payload"]
	for _, p := range path {
		if p == "[]" {
			s = s.Items
		} else {
			s = s.Properties[p]
		}
	}
	return s
}

// fingerprint is the same for schemas of the same fields.
func fingerprint(s *jsonschema.Schema) string {
	if len(s.Properties) == 0 {
		return ""
	}
	b, _ := json.Marshal(s.Properties)
	return string(b)
}

func (d *docs) table(s *jsonschema.Schema, required bool) string {
	var b strings.Builder
	b.WriteString("| field | type | |\n|---|---|---|\n")
	d.rows(&b, s, "", required)
	return b.String()
}

func (d *docs) rows(b *strings.Builder, s *jsonschema.Schema, prefix string, required bool) {
	for _, name := range s.PropertyOrder {
		p := s.Properties[name]
		text := p.Description
		if required && slices.Contains(s.Required, name) {
			text = strings.TrimSuffix("required; "+text, "; ")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", prefix+name, d.typeName(p), text)
		inner, mark := p, "."
		if p.Items != nil {
			inner, mark = p.Items, "[]."
		}
		if d.shared[fingerprint(inner)] == "" {
			d.rows(b, inner, prefix+name+mark, required)
		}
	}
}

// typeName says what a field is made of.
func (d *docs) typeName(s *jsonschema.Schema) string {
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	types = slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == "null" })
	switch {
	case s.Format == "date-time":
		return "time"
	case s.Items != nil:
		return "list of " + d.typeName(s.Items)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Type != "":
		return "object of " + d.typeName(s.AdditionalProperties)
	}
	if name := d.shared[fingerprint(s)]; name != "" {
		return link(name)
	}
	return strings.Join(types, " or ")
}

func link(object string) string {
	return "[" + object + "](#" + strings.ReplaceAll(object, " ", "-") + ")"
}

func (d *docs) example(name, text string) string {
	if text == "" {
		if !slices.Contains(noExample, name) {
			d.t.Errorf("no transcript has a %s", name)
		}
		return ""
	}
	return "\n```\n" + text + "```\n"
}

// requestExample is the first request of its kind that was carried out.
func (d *docs) requestExample(op string) string {
	for _, tr := range d.transcripts {
		sent := map[string]string{}
		for _, l := range tr.lines {
			switch {
			case l.kind == '>' && typeOf(l.text) == op:
				sent[idOf(l.text)] = l.text
			case l.kind == '<' && typeOf(l.text) == "response" && strings.Contains(l.text, `"status":"ok"`) && sent[idOf(l.text)] != "":
				return "> " + sent[idOf(l.text)] + "\n< " + l.text + "\n"
			}
		}
	}
	return ""
}

func (d *docs) eventExample(name string) string {
	for _, tr := range d.transcripts {
		for _, l := range tr.lines {
			if l.kind == '<' && typeOf(l.text) == name {
				return "< " + l.text + "\n"
			}
		}
	}
	return ""
}

// codes is the table of the error codes.
func codes() string {
	var b strings.Builder
	b.WriteString("| number | code | category | |\n|---|---|---|---|\n")
	for _, c := range stdio.Codes() {
		fmt.Fprintf(&b, "| %d | `%s` | %s | %s |\n", c.Number, c.Code, c.Category, c.Meaning)
	}
	return b.String()
}
