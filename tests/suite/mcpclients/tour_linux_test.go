package mcpclients

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/drive"
)

var update = flag.Bool("update", false, "write the tour of docs/mcp.md anew")

const tourHandle = "JBSWY3DPEBLW64TMMQXCAYLOMQ"

// TestTour holds the conversation of docs/mcp.md with the program: what is said
// there is sent, and what comes back must be there.
func TestTour(t *testing.T) {
	t.Parallel()
	const file, begin, end = "../../../docs/mcp.md", "<!-- tour -->\n```\n", "```\n<!-- end -->"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begin)
	script, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no %s", file, begin)
	}
	told := newTour(t).tell(script)
	if told == script {
		return
	}
	if !*update {
		t.Fatalf("%s is not current: go test ./tests/suite/mcpclients -run Tour -update; it would be\n%s", file, told)
	}
	if err := os.WriteFile(file, []byte(before+begin+told+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tour is one conversation.
type tour struct {
	t      *testing.T
	s      *drive.Sandbox
	in     io.Writer
	out    *bufio.Reader
	id     int
	handle string // of the newest call that was held
}

func newTour(t *testing.T) *tour {
	s := drive.New(t, func(t testing.TB, root string) {
		for name, text := range map[string]string{"README": "# Greetings\n", "src/main.go": "package main\n\nfunc main() {\n\tprintln(\"hello\")\n}\n"} {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})
	cmd := s.Command(context.WithoutCancel(t.Context()), "serve", "--protocol", "mcp", "--safeguard-deletes", "2", "--safeguard-timeout", "10m")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server's end: %v", err)
		}
		s.CheckResidue(t)
	})
	return &tour{t: t, s: s, in: in, out: bufio.NewReader(out), id: 100}
}

// tell does what the script says and returns it with the answers that came.
func (c *tour) tell(script string) string {
	var b strings.Builder
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "<") || strings.HasPrefix(line, "!") || strings.TrimLeft(line, "#>$\n") == line {
			continue // an answer
		}
		b.WriteString(line)
		line = strings.TrimSpace(line)
		switch what, rest, _ := strings.Cut(line, " "); {
		case what == "$":
			b.WriteString(c.user(rest))
		case what == ">" && strings.HasPrefix(rest, "{"):
			b.WriteString(c.raw(rest))
		case what == ">":
			b.WriteString(c.tool(rest))
		}
	}
	return b.String()
}

// user runs a command of the user's and returns what it says.
func (c *tour) user(command string) string {
	cmd := exec.Command("sh", "-c", command)
	if rest, ok := strings.CutPrefix(command, "sandbox "); ok {
		cmd = c.s.Command(c.t.Context(), strings.Fields(rest)...)
	}
	cmd.Dir = c.s.Dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s: %v: %s", command, err, out)
	}
	return c.answer("< ", string(out))
}

// raw sends a message as it is and returns its answer, if it has one.
func (c *tour) raw(message string) string {
	if !strings.Contains(message, `"id"`) {
		c.send(message)
		return ""
	}
	return c.answer("< ", string(c.ask(message)))
}

// tool calls a tool and returns the text of its result.
func (c *tour) tool(call string) string {
	name, args, _ := strings.Cut(call, " ")
	c.id++
	answer := c.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`,
		c.id, name, strings.ReplaceAll(args, tourHandle, c.handle)))
	var m struct {
		Result result
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal(answer, &m); err != nil {
		c.t.Fatalf("%v: %s", err, answer)
	}
	text, mark := m.Result.text(), "< "
	if m.Error != nil {
		text, mark = m.Error.Message, "! "
	}
	if m.Result.IsError {
		mark = "! "
	}
	var held struct{ Approval struct{ Handle string } }
	if json.Unmarshal(m.Result.Structured, &held) == nil && held.Approval.Handle != "" {
		c.handle = held.Approval.Handle
	}
	return c.answer(mark, text)
}

// answer puts the mark before every line.
func (c *tour) answer(mark, text string) string {
	var b strings.Builder
	for line := range strings.Lines(c.stable(text)) {
		b.WriteString(strings.TrimRight(mark+line, " \n") + "\n")
	}
	return b.String()
}

func (c *tour) send(message string) {
	if _, err := io.WriteString(c.in, message+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *tour) ask(message string) []byte {
	c.send(message)
	answer, err := c.out.ReadBytes('\n')
	if err != nil {
		c.t.Fatalf("%s: %v", message, err)
	}
	return answer
}

// stable replaces what differs from run to run.
func (c *tour) stable(text string) string {
	text = strings.ReplaceAll(text, c.s.Dir, "/home/me/project")
	if c.handle != "" {
		text = strings.ReplaceAll(text, c.handle, tourHandle)
	}
	for pattern, with := range map[string]string{
		`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`:            "2026-01-02T10:00:00Z",
		`"duration_seconds":[0-9.e-]+`:                                       `"duration_seconds":0.01`,
		`session [0-9a-f]{12}`:                                               "session cc61e4d662ad",
		`("title":"Sandbox: every command can be undone","version":)"[^"]*"`: `$1"1.0.0"`,
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, with)
	}
	return text
}
