package ui

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/browser"
)

// TestOutput: the panel of an agent's step shows what its command wrote, in its colours, and as text whatever it is.
func TestOutput(t *testing.T) {
	t.Parallel()
	axe := axeSource(t)
	p := newPlace(t, nil)
	script := `printf 'plain\n\033[1;31mred\033[0m \033[48;5;22mgreen\033[m\r\n<img src=x onerror=alert(1)>\n\033]0;title\007\033[2Jcleared\rover \342\200\256rev\001\n'; seq 100000; echo made >made`
	agent := p.Bare(t.Context(), "serve", "--protocol", "stdio", "--log-level", "error")
	in, inErr := agent.StdinPipe()
	out, outErr := agent.StdoutPipe()
	if err := errors.Join(inErr, outErr, agent.Start()); err != nil {
		t.Fatal(err)
	}
	for _, m := range []map[string]any{
		{"type": "session.start", "request_id": "1", "payload": map[string]any{"working_directories": []any{map[string]any{"path": p.Dir}}}},
		{"type": "agent.execute", "request_id": "0", "payload": map[string]any{"command": "echo few; echo first >first", "wait": true}},
		{"type": "agent.execute", "request_id": "2", "payload": map[string]any{"command": script, "wait": true}},
	} {
		if err := json.NewEncoder(in).Encode(m); err != nil {
			t.Fatal(err)
		}
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for ended := false; !ended && lines.Scan(); {
		ended = strings.Contains(lines.Text(), `"request_id":"2","status":"ok"`)
	}
	_ = in.Close()
	_, _ = io.Copy(io.Discard, out)
	if err := agent.Wait(); err != nil || p.read("made") != "made\n" {
		t.Fatal(err, p.read("made"))
	}
	p.step("echo mine >mine") // run keeps nothing

	tab := open(browser.Start(t), t, p.serve().url)
	tab.press("nav a", "work")
	tab.press(rows, "seq 100000")
	tab.text(".output .a-fg1.a-bold", "red")
	tab.text(".output .a-bg2", "green")
	tab.text(".output", "left out")
	got := eval[string](tab, `document.querySelector(".output").textContent`)
	for _, want := range []string{"plain\nred green\n<img src=x onerror=alert(1)>\ncleared\nover \u27e8U+202E\u27e9rev\u2401\n1\n2\n", "\n99999\n100000\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %.300q", want, got)
		}
	}
	if eval[bool](tab, `document.querySelector(".output img") !== null`) {
		t.Error("what a command wrote became an element")
	}
	tab.axe(axe, "output")
	tab.shoot("output-1280-light")
	tab.press(rows, "echo few")
	tab.wait(`document.querySelector(".output")?.textContent === "few\n"`)
	tab.press(rows, "echo mine")
	tab.text(".path-row", "mine")
	tab.wait(`document.querySelector(".output") === null`)
}
