package jsonl

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write the transcripts and what docs/stdio.md takes of them anew")

// A transcript is a conversation in testdata: a txtar archive with the files of
// the folder (project/..., lib/...), the program's arguments (flags, one a line),
// its configuration (config.toml) and the conversation, a line each:
//
//	# a remark
//	> a request: JSON, or not
//	$ a shell command of the host, in the folder, which must succeed; $GUEST are
//	  the processes that the program has started
//	! start, kill or close: the program is started, killed, or hung up on
//	? what to wait for before the answers are written down: ids and events;
//	  without it, the response to the last request
//	< a message of the program, normalised
//
// Messages are in the order in which they came when they were written down. What
// is checked is what the protocol promises: that all come, before what is sent
// next is answered, and those of one request in this order.
type transcript struct {
	file    string
	archive *txtar.Archive
	lines   []line
}

// line is a line of a conversation.
type line struct {
	kind byte // one of # > $ ! ? <, or 0 for an empty one
	text string
}

const conversation = "conversation"

func readTranscripts(t testing.TB) []*transcript {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	var all []*transcript
	for _, f := range files {
		all = append(all, readTranscript(t, f))
	}
	// The tour comes first: what is taken from it need not be taken elsewhere.
	slices.SortStableFunc(all, func(a, b *transcript) int { return rank(a) - rank(b) })
	return all
}

func rank(tr *transcript) int {
	if tr.name() == "tour" {
		return 0
	}
	return 1
}

func readTranscript(t testing.TB, file string) *transcript {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tr := &transcript{file: file, archive: a}
	for text := range strings.Lines(tr.section(conversation)) {
		text = strings.TrimSuffix(text, "\n")
		if text == "" {
			tr.lines = append(tr.lines, line{})
			continue
		}
		if !strings.Contains("#>$!?<", text[:1]) || len(text) > 1 && text[1] != ' ' {
			t.Fatalf("%s: not a line of a conversation: %s", file, text)
		}
		tr.lines = append(tr.lines, line{text[0], strings.TrimPrefix(text[1:], " ")})
	}
	if len(tr.lines) == 0 {
		t.Fatalf("%s has no conversation", file)
	}
	return tr
}

func (tr *transcript) name() string {
	return strings.TrimSuffix(filepath.Base(tr.file), ".txtar")
}

// section is the content of one of the archive's files.
func (tr *transcript) section(name string) string {
	for _, f := range tr.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// text is the conversation as it is written.
func (tr *transcript) text() string {
	var b strings.Builder
	for _, l := range tr.lines {
		if l.kind != 0 {
			b.WriteString(strings.TrimSuffix(string(l.kind)+" "+l.text, " "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (tr *transcript) write(t testing.TB) {
	t.Helper()
	for i, f := range tr.archive.Files {
		if f.Name == conversation {
			tr.archive.Files[i].Data = []byte(tr.text())
		}
	}
	if err := os.WriteFile(tr.file, txtar.Format(tr.archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// block is what is done at once, and what comes of it.
type block struct {
	do, want []line // of the kinds > $ !, and <
	wait     []string
	keep     []line // all but the wanted ones
}

// blocks divides the conversation.
func (tr *transcript) blocks() []*block {
	var all []*block
	for _, l := range tr.lines {
		if len(all) == 0 || all[len(all)-1].endsBefore(l) {
			all = append(all, &block{})
		}
		b := all[len(all)-1]
		switch l.kind {
		case '<':
			b.want = append(b.want, l)
			continue
		case '?':
			b.wait = strings.Fields(l.text)
		case '>', '$', '!':
			b.do = append(b.do, l)
		}
		b.keep = append(b.keep, l)
	}
	return all
}

// endsBefore reports whether the line belongs to the next block.
func (b *block) endsBefore(l line) bool {
	switch l.kind {
	case '>', '$', '!':
		return b.want != nil || b.wait != nil
	case '#', 0:
		return b.do != nil || b.want != nil
	}
	return false
}

// unordered tells whether a message may come before or after the response to its
// request: the end of a step that is no command's.
func unordered(text string) bool {
	return strings.HasPrefix(text, `{"type":"event.step_completed"`) && strings.Contains(text, `"type":"api"`)
}

// idOf is the id of a request, or the id of the request that a message is about.
func idOf(text string) string {
	var m struct {
		RequestID string `json:"request_id"`
		Payload   struct {
			RequestID string `json:"request_id"`
		}
	}
	if json.Unmarshal([]byte(text), &m) != nil {
		return ""
	}
	if m.RequestID == "" {
		return m.Payload.RequestID
	}
	return m.RequestID
}

// typeOf is the type of a message.
func typeOf(text string) string {
	var m struct{ Type string }
	_ = json.Unmarshal([]byte(text), &m)
	return m.Type
}

// vary are the parts of a message that no two runs have in common.
var vary = []struct {
	is *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]+"`), `"2026-01-02T10:00:00Z"`},
	{regexp.MustCompile(`"session_id":"[^"]+"`), `"session_id":"cc61e4d662ad"`},
	{regexp.MustCompile(`"agent_version":"[^"]*"`), `"agent_version":"1.0.0"`},
	{regexp.MustCompile(`"took_ms":\d+`), `"took_ms":2`},
	{regexp.MustCompile(`"duration_ms":\d+`), `"duration_ms":12`},
	{regexp.MustCompile(`"output_bytes":\d+`), `"output_bytes":8`},
	{regexp.MustCompile(`"(stored_bytes|bytes_freed)":[1-9]\d*`), `"$1":290`},
	{regexp.MustCompile(`"uncompressed_bytes":\d+`), `"uncompressed_bytes":0`},
	{regexp.MustCompile(`"in_flight":\d+,"requests":\d+`), `"in_flight":0,"requests":42`},
	{regexp.MustCompile(`"request_counts":\{[^}]*\}`), `"request_counts":{"LOOKUP":20,"GETATTR":12,"READ":10}`},
	{regexp.MustCompile(`"machine":\{[^}]*\}`), `"machine":{"isolation":"jail (static: the host's tree is read-only)","kernel":"6.12.0","network":"loopback only","pid":"4711"}`},
	{regexp.MustCompile(`/(\w+)-[0-9a-f]{16}\b`), `/$1-545947e7a775c3e9`},
	{regexp.MustCompile(`(pid|process) \d+`), `$1 4712`},
	{regexp.MustCompile(`"pid":\d+`), `"pid":4712`},
}

// places are what folders, and the port that is free, are called in transcripts, the
// longest first.
type places []struct{ real, name string }

// normal is a message as transcripts have it.
func (p places) normal(message string) string {
	for _, f := range p {
		message = strings.ReplaceAll(message, f.real, f.name)
	}
	for _, v := range vary {
		message = v.is.ReplaceAllString(message, v.to)
	}
	return message
}

// real is a request as the program gets it.
func (p places) real(request string) string {
	for _, f := range p {
		request = strings.ReplaceAll(request, f.name, f.real)
	}
	return request
}
