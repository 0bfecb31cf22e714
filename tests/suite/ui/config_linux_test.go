package ui

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/codeagent/sandbox/tests/kit/browser"
)

// config is the user's configuration file in a place.
func (p *place) config() string {
	p.t.Helper()
	for _, v := range p.Bare(p.t.Context(), "version").Env {
		if dir, ok := strings.CutPrefix(v, "XDG_CONFIG_HOME="); ok {
			return filepath.Join(dir, "codeagent", "codeagent.toml")
		}
	}
	return filepath.Join(p.home(), ".config", "codeagent", "codeagent.toml")
}

// write puts a text into a field, as a person does who has written it.
func (p *tab) write(selector, text string) {
	p.t.Helper()
	eval[bool](p, `(() => { const a = document.querySelector(`+quote(selector)+`); a.value = `+quote(text)+`; a.dispatchEvent(new Event("input")); return true })()`)
}

// TestConfig changes the configuration by the page: what is wrong is told with its line while one writes, a diff is shown
// before anything is saved, comments stay, a file that somebody else changes is left alone, and a project's file widens nothing.
func TestConfig(t *testing.T) {
	t.Parallel()
	axe := axeSource(t)
	const evil = "# <img src=x onerror=alert(1)> \u202e\n[undo]\nmax_steps = 50 # mine\n"
	p := newPlace(t, map[string]string{"codeagent.toml": "# the project's\nisolation = \"jail\"\n"})
	p.step("echo 1 >a")
	file := p.config()
	put(t, file, evil)
	tab := open(browser.Start(t), t, p.serve().url)
	eval[bool](tab, `(window.alert = () => { window.pwned = true }, true)`)
	tab.press("nav a", "Configuration")
	tab.text("main tr.own", "codeagent.toml:3")
	tab.text("main tr .doc", "undo log")
	value := func(js string) string { t.Helper(); return eval[string](tab, js) }
	typed := func(text string) { t.Helper(); tab.write("#configtext", text) }

	// From a setting into the file, where its value is chosen.
	tab.click("#configfind")
	tab.keys("undo.max_steps")
	tab.wait(`[...document.querySelectorAll("main tbody tr")].filter((r) => !r.hidden).length === 1`)
	tab.press("main tbody tr:not([hidden]) button", "Change")
	tab.wait(`document.activeElement.id === "configtext"`)
	tab.wait(`(() => { const a = document.activeElement; return a.value.slice(a.selectionStart, a.selectionEnd) === "50" })()`)
	tab.text(".configfile .warning", "not seen here")
	tab.shoot("config-editor-1280-light")
	tab.axe(axe, "the editor")

	// One that is not there yet is put into its table; what is wrong is told, with its line.
	eval[bool](tab, `(() => { const s = document.querySelector("#configadd"); s.value = "safeguards.deletes"; s.dispatchEvent(new Event("change")); return true })()`)
	if got := value(`document.querySelector("#configtext").value`); !strings.Contains(got, "# mine\n\n[safeguards]\ndeletes = 0\n") {
		t.Errorf("the text with a setting more: %q", got)
	}
	wrong := strings.Replace(evil, "max_steps", "max_stesp", 1)
	typed(wrong)
	tab.text(".mistakes", "did you mean")
	tab.wait(`document.querySelector(".gutter .bad")?.textContent === "3" && document.querySelector("#configtext").getAttribute("aria-invalid") === "true"`)
	tab.press(".mistakes button", "Line 3")
	tab.wait(`(() => { const a = document.activeElement; return a.id === "configtext" && a.value.slice(a.selectionStart).startsWith("max_stesp") })()`)
	tab.shoot("config-mistake-1280-light")
	tab.click("#configsave")
	tab.text("dialog .problem", "line 3")
	tab.wait(`[...document.querySelectorAll("dialog button.primary")].every((b) => b.disabled)`)
	tab.keys(kb.Escape)
	if got := textOf(file); got != evil {
		t.Errorf("a text with a mistake was saved: %q", got)
	}

	// What is not saved stays when one looks at something else.
	typed(strings.Replace(evil, "50", "60", 1))
	tab.press("nav a", "Doctor")
	tab.text("h1", "Doctor")
	tab.press("nav a", "Configuration")
	tab.text(".tabs button", "not saved")
	tab.click("#level-user")
	tab.wait(`document.querySelector("#configtext")?.value.includes("max_steps = 60")`)

	// Somebody else changes the file between the preview and the button.
	tab.click("#configsave")
	tab.text("dialog .line.del", "max_steps = 50 # mine")
	tab.text("dialog .line.add", "max_steps = 60 # mine")
	tab.text("dialog .line.same", "⟨U+202E⟩")
	tab.text("dialog td", "undo.max_steps")
	tab.wait(`document.activeElement.textContent === "Cancel"`)
	tab.shoot("config-preview-1280-light")
	tab.axe(axe, "the preview of a configuration")
	tab.expect("409")
	other := strings.Replace(evil, "50", "55", 1)
	put(t, file, other)
	tab.press("dialog button.primary", "Save")
	tab.text("dialog .warning", "was changed since this was shown")
	if got := textOf(file); got != other {
		t.Errorf("a file that was changed since was written: %q", got)
	}
	tab.press("dialog button", "Look again")
	tab.text("dialog .warning", "Somebody has changed the file")
	tab.text("dialog .line.del", "max_steps = 55 # mine")

	// By the keyboard alone.
	tab.wait(`document.activeElement.textContent === "Cancel" && [...document.querySelectorAll("dialog button.primary")].some((b) => !b.disabled)`)
	tab.keys(kb.Tab)
	tab.wait(`document.activeElement.matches(".filediff, .scroll, dialog button.primary")`)
	eval[bool](tab, `document.querySelector("dialog button.primary").focus(), true`)
	tab.keys(kb.Enter)
	tab.text("#said", "Saved")
	tab.wait(`document.querySelector("dialog") === null && document.activeElement.id === "configtext" && document.querySelector("#configsave").disabled`)
	if got := textOf(file); got != strings.Replace(evil, "50", "60", 1) {
		t.Errorf("after it was saved: %q", got)
	}
	if copies, _ := filepath.Glob(file + ".*.bak"); len(copies) != 1 || textOf(copies[0]) != other {
		t.Errorf("the copies: %v", copies)
	}

	// A project's file may only tighten.
	tab.click("#level-project")
	tab.wait(`document.querySelector("#configtext")?.value.includes("the project's")`)
	typed("# the project's\nisolation = \"none\"\n")
	tab.text(".mistakes", "only tighten")
	typed("# the project's\nisolation = \"vm\"\n")
	tab.wait(`document.querySelector(".mistakes") === null`)
	tab.click("#configsave")
	tab.text("dialog td", "isolation")
	tab.press("dialog button.primary", "Save")
	tab.wait(`document.querySelector("dialog") === null && document.querySelector("#configsave")?.disabled`)
	if got := p.read("codeagent.toml"); got != "# the project's\nisolation = \"vm\"\n" {
		t.Errorf("the project's file: %q", got)
	}

	// One that is broken can be mended here, although nothing else can be shown.
	tab.expect("409|500")
	put(t, file, "[undo\n")
	tab.press("nav a", "Overview")
	tab.press("nav a", "Configuration")
	tab.text("main .problem", "codeagent.toml:1")
	tab.click("#level-user")
	tab.text(".mistakes", "Line 1")
	typed("[undo]\n")
	tab.click("#configsave")
	tab.press("dialog button.primary", "Save")
	tab.wait(`document.querySelector("dialog") === null && document.querySelector("#configsave")?.disabled`)
	tab.click("#level-all")
	tab.text("main tr code", "undo.max_steps")

	tab.size(360, 740)
	tab.theme(true)
	tab.click("#level-user")
	tab.wait(`document.querySelector("#configtext")?.value === "[undo]\n"`)
	tab.shoot("config-editor-360-dark")
	tab.axe(axe, "the editor, dark and narrow")
	if wide := eval[int](tab, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("it is %d wide", wide)
	}
	if eval[bool](tab, `window.pwned === true || document.querySelector("main script, main img, dialog img, [onerror]") !== null`) {
		t.Error("a file's text became more than text")
	}
	for _, name := range []string{file, filepath.Join(p.Dir, "codeagent.toml")} { // the copies are no residue
		copies, _ := filepath.Glob(name + ".*.bak")
		for _, c := range copies {
			if err := os.Remove(c); err != nil {
				t.Error(err)
			}
		}
	}
}
