package ui

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/browser"
)

// TestServe: 'serve --ui' serves the page beside the protocol. Its address is in a file of this user's alone, which goes at
// the end, and nowhere else.
func TestServe(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"stdio", "mcp"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			chromium := browser.Start(t)
			p := newPlace(t, map[string]string{"notes.txt": "first\n"})
			cmd := p.Bare(context.WithoutCancel(t.Context()), "serve", "--protocol", protocol, "--ui", "--log-level", "error", "-C", p.Dir)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			logs, log := io.Pipe()
			var logged bytes.Buffer
			cmd.Stderr = io.MultiWriter(&logged, log)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			var line struct {
				File string `json:"url_file"`
			}
			for lines := bufio.NewScanner(logs); line.File == "" && lines.Scan(); {
				if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
					t.Fatalf("on stderr: %s", lines.Text())
				}
			}
			go func() { _, _ = io.Copy(io.Discard, logs) }()
			st, err := os.Stat(line.File)
			if err != nil || st.Mode() != 0o600 {
				t.Fatalf("%v: %v", line.File, err)
			}
			address := strings.TrimSpace(textOf(line.File))
			_, token, ok := strings.Cut(address, "#token=")
			if !ok {
				t.Fatal("no address in the file")
			}
			out := bufio.NewScanner(stdout)
			var said bytes.Buffer
			until := func(want string) string {
				t.Helper()
				for out.Scan() {
					said.Write(out.Bytes())
					if strings.Contains(out.Text(), want) {
						return out.Text()
					}
				}
				t.Fatalf("stdout ended without %s: %s", want, &logged)
				return ""
			}
			send := func(text string) {
				t.Helper()
				if _, err := io.WriteString(in, text+"\n"); err != nil {
					t.Fatal(err)
				}
			}
			if protocol == "stdio" {
				send(`{"type":"session.start","request_id":"1"}`)
				until(`"request_id":"1"`)
				// Nothing inside can read the address.
				send(`{"type":"agent.execute","request_id":"2","payload":{"command":"cat ` + line.File + ` || echo unseen >seen; echo made >made"}}`)
				until(`step_completed`)
				if got := p.read("seen"); got != "unseen\n" {
					t.Errorf("inside, the file is there: %q", got)
				}
			} else {
				send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
				until(`"id":1`)
				send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"write_file","arguments":{"path":"made","content":"made\n"}}}`)
				until(`"id":2`)
			}
			tab := open(chromium, t, address)
			tab.text("main", "1 session")
			tab.press("nav a", "work")
			tab.text(rows, "#1")
			tab.press(rows, "#1")
			tab.press(".stephead button", "Undo to here")
			tab.press("dialog button", "Undo 1 step")
			tab.text("#said", "Undone 1 step")
			if got := p.read("made"); got != "no made" {
				t.Errorf("after the undo: %q", got)
			}
			tab.expect("409|50[03]|ERR_|Failed to fetch|401|404") // what is asked while the session ends, and its log is held still
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
			for out.Scan() {
				said.Write(out.Bytes())
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, &logged)
			}
			if _, err := os.Lstat(line.File); !os.IsNotExist(err) {
				t.Errorf("%s is left behind: %v", line.File, err)
			}
			for where, text := range map[string]string{"stdout": said.String(), "stderr": logged.String()} {
				if strings.Contains(text, token) {
					t.Errorf("the token is on %s", where)
				}
			}
			for text := range strings.Lines(logged.String()) {
				if !json.Valid([]byte(text)) {
					t.Errorf("on stderr: %s", text)
				}
			}
			tab.text("#banner", "connection to sandbox ui is lost")
		})
	}
}
