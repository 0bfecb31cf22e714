package ui

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/codeagent/sandbox/tests/kit/browser"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/npm"
)

// home is the user's home directory in a place.
func (p *place) home() string {
	p.t.Helper()
	for _, v := range p.Bare(p.t.Context(), "version").Env {
		if dir, ok := strings.CutPrefix(v, "HOME="); ok {
			return dir
		}
	}
	p.t.Fatal("HOME is not set")
	return ""
}

// put makes a file, with its folder.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func textOf(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "none"
	}
	return string(text)
}

// axeSource is axe-core's.
func axeSource(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(npm.Modules(t, drive.Module(t)+"/tests/suite/ui"), "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

// TestClients installs and removes by the page: what would change is shown first, a file that somebody changes meanwhile is
// left alone, and what is in files stays text.
func TestClients(t *testing.T) {
	t.Parallel()
	axe := axeSource(t)
	p := newPlace(t, nil)
	home := p.home()
	settings := filepath.Join(home, ".gemini", "settings.json")
	const evil = "{\n  // <img src=x onerror=alert(1)> \u202e\n  \"theme\": \"<script>document.title='pwned'</script>\"\n}\n"
	put(t, settings, evil)
	put(t, filepath.Join(home, ".cursor", "mcp.json"), "{ nonsense")
	if err := os.MkdirAll(filepath.Join(home, ".codex"), 0o755); err != nil {
		t.Fatal(err)
	}
	tab := open(browser.Start(t), t, p.serve().url)
	eval[bool](tab, `(window.alert = () => { window.pwned = true }, true)`)
	tab.press("nav a", "Clients")
	tab.text(".client", "Gemini CLI")
	tab.text(".client .warning", "mcp.json")
	tab.text("main h2", "Not found on this machine")

	// Cancelled, nothing is done.
	tab.press("#client-gemini-cli-shell", "")
	tab.text("dialog h2", "Install the shell hook in Gemini CLI")
	tab.text("dialog .line.add", "sandbox hook gemini-cli")
	tab.text("dialog .line.add", "<script>document.title='pwned'</script>")
	tab.text("dialog .line.same", "⟨U+202E⟩")
	tab.text("dialog .tag", "is made")
	tab.wait(`document.activeElement.textContent === "Cancel"`)
	tab.shoot("client-preview-1280-light")
	tab.axe(axe, "the preview")
	tab.keys(kb.Escape)
	tab.wait(`document.querySelector("dialog") === null && document.activeElement.id === "client-gemini-cli-shell"`)
	if got := textOf(settings); got != evil {
		t.Errorf("a preview has changed the file: %s", got)
	}

	// The file changes between the preview and the button.
	tab.expect("409")
	tab.keys(kb.Enter)
	tab.text("dialog .line.add", "sandbox hook gemini-cli")
	changed := strings.Replace(evil, "theme", "other", 1)
	put(t, settings, changed)
	tab.press("dialog button", "Install")
	tab.text("dialog .warning", "was changed since this was shown")
	if got := textOf(settings); got != changed {
		t.Errorf("a file that was changed since was written: %s", got)
	}
	if _, err := os.Stat(filepath.Join(home, ".gemini", "commands")); err == nil {
		t.Error("the other file was made")
	}
	tab.press("dialog button", "Look again")
	tab.text("dialog .line.add", `"other"`)

	// By the keyboard alone.
	tab.wait(`document.activeElement.textContent === "Cancel" && [...document.querySelectorAll("dialog button.primary")].some((b) => !b.disabled)`)
	tab.keys(kb.Tab)
	tab.wait(`document.activeElement.matches("dialog button.primary")`)
	tab.keys(kb.Enter)
	tab.text("#said", "Gemini CLI: shell hook installed")
	tab.wait(`document.querySelector("dialog") === null && document.activeElement.id === "client-gemini-cli-shell" && document.activeElement.textContent === "Remove…"`)
	if got := textOf(settings); !strings.Contains(got, "sandbox hook gemini-cli") || !strings.Contains(got, "pwned") {
		t.Errorf("after the installation: %s", got)
	}

	// Both of one client, a note that comes with it, and all of it out again.
	tab.press("#client-codex-mcp", "")
	tab.text("dialog .line.add", "mcp_servers")
	tab.document("client")
	tab.press("dialog button", "Install")
	tab.wait(`document.querySelector("#client-codex-mcp")?.textContent === "Remove…"`)
	tab.press("#client-codex-shell", "")
	tab.press("dialog button", "Install")
	tab.text("[role=status] .note", "enter /hooks")
	tab.wait(`document.querySelector("#client-codex-shell")?.textContent === "Remove…"`)
	tab.shoot("clients-installed-1280-light")
	tab.press("#client-codex-mcp", "")
	tab.text("dialog .line.del", "[mcp_servers.sandbox]")
	tab.text("dialog .tag", "is removed")
	tab.press("dialog button", "Remove")
	tab.wait(`document.querySelector("#client-codex-mcp")?.textContent === "Install…" && document.querySelector("#client-codex-shell")?.textContent === "Remove…"`)
	tab.press("#client-gemini-cli-shell", "")
	tab.press("dialog button", "Remove")
	tab.wait(`document.querySelector("#client-gemini-cli-shell")?.textContent === "Install…"`)
	if got := textOf(settings); got != changed {
		t.Errorf("after the removal: %s", got)
	}

	// A client whose file is not valid is refused, and says where it is wrong.
	tab.press("#client-cursor-mcp", "")
	tab.text("dialog .problem", "mcp.json")
	tab.keys(kb.Escape)

	tab.size(360, 740)
	tab.theme(true)
	tab.press("#client-codex-mcp", "")
	tab.text("dialog .line.add", "mcp_servers")
	tab.shoot("client-preview-360-dark")
	tab.axe(axe, "the preview, dark and narrow")
	if wide := eval[int](tab, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("it is %d wide", wide)
	}
	tab.keys(kb.Escape)
	if eval[bool](tab, `window.pwned === true || document.title.includes("pwned") || document.querySelector("main script, dialog script, [onerror]") !== null`) {
		t.Error("a file's text became more than text")
	}
}
