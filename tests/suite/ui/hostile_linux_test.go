package ui

import (
	"testing"

	"github.com/codeagent/sandbox/tests/kit/browser"
)

// TestHostile has names and outputs that would run in a page that trusted them.
func TestHostile(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	p.live("--safeguard-deletes", "1", "--safeguard-timeout", "10m")
	const img = `<img src=x onerror=alert(1)>`
	p.step("printf '%s' '<script>document.title=\"pwned\"</script>\n\x1b[31mred\x1b[0m \u202egnp.exe\n" + img + "\n' >'" + img + ".html'; touch 'a\u202eb' \"$(printf 'esc\\033[31m')\" \"$(printf 'new\\nline')\" \"$(printf 'bad\\377')\" 'javascript:alert(1)' ' ' '&lt;b&gt;'; : '\"><svg onload=alert(1)>'")
	p.sandbox("mark", "<b>mark</b><script>")
	chromium := browser.Start(t)
	s := p.serve()
	tab := open(chromium, t, s.url)
	tab.size(1280, 1800) // all paths are in sight
	eval[bool](tab, `(window.alert = () => { window.pwned = true }, true)`)
	tab.press("nav a", "work")
	tab.text(rows, "<svg onload=alert(1)>")
	tab.press(rows, "#1")
	tab.text(".path-row", img)
	tab.text(".path-row", "a⟨U+202E⟩b")
	tab.text(".path-row", "esc␛[31m")
	tab.text(".path-row", "bad")
	tab.text(".path-row", "␣")
	tab.text(".path-row", "new⏎line")
	tab.text(".entry.mark", "<b>mark</b><script>")
	tab.press(".path-row", img)
	tab.text(".line.add", "<script>")
	tab.text(".line.add", "␛[31mred")
	tab.text(".line.add", "⟨U+202E⟩gnp.exe")
	tab.shoot("hostile-1280-light")
	// Every path can be chosen, and its history seen.
	n := eval[int](tab, `document.querySelectorAll(".path-row").length`)
	for i := range n {
		eval[bool](tab, `document.querySelectorAll(".path-row")[`+string(rune('0'+i))+`].click(), true`)
		tab.wait(`document.querySelector(".diffbox .bar").textContent !== "Reading…"`)
	}
	tab.press(".path-row", img)
	tab.press(".step a", "History of the path")
	tab.wait(`document.querySelectorAll(".version").length === 1`)

	ended := p.background("run", "--", "rm", "--", img+".html")
	tab.press("nav a", "Decisions")
	tab.text(".question", img)
	tab.text("#urgent", "needed")
	tab.press(".question button", "Deny")
	ended()

	if eval[bool](tab, `window.pwned === true || document.title === "pwned" || document.querySelector("main script, main iframe, main b svg, [onerror], [onload]") !== null`) {
		t.Error("a name or an output became more than text")
	}
	// The page's own policy would have stopped it, too.
	tab.expect("Content Security Policy")
	if eval[bool](tab, `(() => { const s = document.createElement("script"); s.textContent = "window.inline = true"; document.body.append(s); return window.inline === true })()`) {
		t.Error("an inline script has run")
	}
}
