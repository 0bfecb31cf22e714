package ui

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/codeagent/sandbox/tests/kit/browser"
)

// picture is a PNG of one colour, as base64.
func picture(t *testing.T, c color.Color) string {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, 24, 24))
	for i := range 24 * 24 {
		img.Set(i%24, i/24, c)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// story gives a folder a history with a bit of everything.
func story(t *testing.T, p *place) {
	t.Helper()
	p.step("mkdir -p src/deep; printf 'package main\n\nfunc main() {\n\tprintln(\"one\")\n}\n' >src/main.go; echo notes >notes.txt; echo x >src/deep/file.txt")
	p.step(fmt.Sprintf("printf 'package main\n\n// main says two.\nfunc main() {\n\tprintln(\"two\", 2)\n}\n' >src/main.go; echo %s | base64 -d >logo.png", picture(t, color.RGBA{200, 30, 30, 255})))
	p.step(fmt.Sprintf("echo %s | base64 -d >logo.png; rm src/deep/file.txt", picture(t, color.RGBA{30, 30, 200, 255})))
	_ = p.Bare(t.Context(), "run", "--", "sh", "-c", "echo more >>notes.txt; exit 3").Run()
}

const rows = `.steplist .row`

// TestTimeline goes through a history: search, filter, a step, its diff and its
// pictures, the versions of a file, and what runs while one looks.
func TestTimeline(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"notes.txt": "first\n"})
	p.live()
	story(t, p)
	tab := open(browser.Start(t), t, p.serve().url)
	tab.wait(`location.hash === "#/" && !location.href.includes("token")`)
	tab.text("nav", "work")
	tab.text("main", "1 session")
	tab.text("main .facts", "Limits")
	tab.text("main .card", "idle") // the load
	tab.press("nav a", "work")
	tab.wait(`document.querySelectorAll("` + rows + `").length === 4`)
	tab.text(rows, "exit 3")
	tab.text("#found", "4 steps")

	tab.click("#search")
	tab.keys("logo.png")
	tab.text("#found", "2 steps found")
	tab.keys(kb.Escape)
	eval[bool](tab, `(() => { const e = document.querySelector("#search"); e.value = ""; e.dispatchEvent(new Event("input")); return true })()`)
	tab.text("#found", "4 steps")
	eval[bool](tab, `(() => { const e = document.querySelector("#filter"); e.value = "failed"; e.dispatchEvent(new Event("change")); return true })()`)
	tab.text("#found", "1 step found")
	eval[bool](tab, `(() => { const e = document.querySelector("#filter"); e.value = ""; e.dispatchEvent(new Event("change")); return true })()`)

	tab.press(rows, "#2")
	tab.text(".step h2", "Step 2")
	tab.press(".path-row", "main.go")
	tab.text(".line.add code", `println("two", 2)`)
	tab.wait(`document.querySelector(".line.add .t-str")?.textContent === '"two"' && document.querySelector(".line.add .t-com") !== null`)
	tab.click(".diffbox .bar button")
	tab.wait(`document.querySelectorAll(".half.del").length > 0 && document.querySelectorAll(".half.add").length > 0`)
	tab.click(".diffbox .bar button")

	tab.press(rows, "#3")
	tab.text(".step h2", "Step 3")
	tab.press(".path-row", "logo.png")
	tab.text(".line.info", "Binary files")
	tab.wait(`(() => { const i = [...document.querySelectorAll("figure img")]; return i.length === 2 && i.every((e) => e.complete && e.naturalWidth > 0) })()`)
	tab.shoot("pictures")
	tab.text(".path-row .sign.del", "\u2212")
	tab.press(".step button", "Whole step")
	tab.text(".line.info, .line.file", "file.txt")

	tab.press(".path-row", "logo.png")
	tab.press(".step a", "History of the path")
	tab.text("h1", "logo.png")
	tab.wait(`document.querySelectorAll(".version").length === 2`)
	tab.press("main a", "Timeline")

	p.step("echo live >live.txt")
	tab.text(rows, "live.txt")
	tab.text("#found", "5 steps")

	// A command that runs is shown while it does.
	ended := p.background("run", "--", "sh", "-c", "until [ -e go ]; do sleep 0.05; done")
	tab.text(".running", "runs")
	p.write("go", "")
	ended()
	tab.wait(`document.querySelector(".running").textContent === ""`)
}

// TestUndo takes back and does again what the page shows, and looks at the folder.
func TestUndo(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"notes.txt": "first\n"})
	p.live()
	story(t, p)
	chromium := browser.Start(t)
	s := p.serve()
	tab := open(chromium, t, s.url)
	tab.press("nav a", "work")
	tab.press(rows, "#2")
	tab.text(".step h2", "Step 2")

	// The mark, set now, is the way back later.
	tab.click("#mark")
	tab.wait(`document.activeElement.id === "markname"`)
	tab.keys("all-done")
	tab.keys(kb.Enter)
	tab.text(".entry.mark", "all-done")

	tab.press(".stephead button", "Undo to here")
	tab.text("dialog h2", "Undo 3 steps")
	tab.text("dialog h3", "would change")
	tab.wait(`document.querySelectorAll("dialog .steps li").length === 3 && document.activeElement.textContent === "Cancel"`)
	if got := p.read("src/main.go"); !strings.Contains(got, "two") {
		t.Errorf("a dry run has changed the folder: %q", got)
	}
	tab.shoot("undo-1280-light")
	tab.press("dialog button", "Undo 3 steps")
	tab.text("#said", "Undone 3 steps")
	if got := p.read("src/main.go"); !strings.Contains(got, "one") {
		t.Errorf("after the undo: %q", got)
	}
	if got := p.read("src/deep/file.txt"); got != "x\n" {
		t.Errorf("after the undo, file.txt: %q", got)
	}
	tab.wait(`document.querySelectorAll(".entry.undone").length === 3`)

	// Redo by the keyboard alone.
	eval[bool](tab, `document.querySelector(".steplist").focus(), true`)
	tab.keys("r")
	tab.text("dialog h2", "Redo 1 step")
	tab.wait(`[...document.querySelectorAll("dialog button.primary")].some((b) => !b.disabled)`)
	tab.keys(kb.Tab)
	tab.wait(`document.activeElement.matches("dialog button.primary")`)
	tab.keys(kb.Enter)
	tab.text("#said", "Done again: 1 step")
	if got := p.read("src/main.go"); !strings.Contains(got, "two") {
		t.Errorf("after the redo: %q", got)
	}

	// Two tabs: what one has undone, the other does not undo again.
	two := open(chromium, t, s.base()+"#/")
	two.press("nav a", "work")
	two.click("#undo")
	two.text("dialog h2", "Undo 1 step")
	two.wait(`[...document.querySelectorAll("dialog button.primary")].some((b) => !b.disabled)`)
	two.expect("409")
	p.sandbox("undo")
	two.press("dialog button", "Undo 1 step")
	two.text("dialog", "The history has changed")
	if got := p.read("notes.txt"); got != "notes\n" {
		t.Errorf("the second undo was done: %q", got)
	}
	two.keys(kb.Escape)
	two.wait(`document.querySelector("dialog") === null`)

	// One path alone, and an edit from outside that is not overwritten unasked.
	tab.text(".steplist .row:not(.undone)", "#1")
	p.step("echo changed >notes.txt; echo new >other.txt")
	tab.press(rows, "other.txt")
	tab.press(".path-row", "notes.txt")
	tab.press(".step button", "Restore")
	tab.text("dialog h2", "Restore notes.txt")
	tab.press("dialog button", "Restore this path")
	tab.text("#said", "Restored")
	tab.text(rows, "restore notes.txt") // undo is about the steps that are shown
	if got := p.read("notes.txt") + p.read("other.txt"); got != "notes\nnew\n" {
		t.Errorf("after restore: %q", got)
	}
	p.write("notes.txt", "mine\n")
	tab.expect("409")
	tab.click("#undo")
	tab.text("dialog .barrier", "notes.txt")
	if got := p.read("notes.txt"); got != "mine\n" {
		t.Errorf("an edit from outside was overwritten unasked: %q", got)
	}
	// Both contents: what the undo brings back, and what somebody wrote there.
	tab.press("dialog .barrier summary", "notes.txt")
	tab.text("dialog .barrier .line.add", "mine")
	tab.text("dialog .barrier .line.del", "changed")
	tab.shoot("barrier-1280-light")
	tab.click("#force")
	tab.press("dialog button", "Undo 1 step")
	tab.text("#said", "Undone")
	if got := p.read("notes.txt"); got != "changed\n" {
		t.Errorf("after the forced undo: %q", got)
	}
}

// TestManyPaths shows a step of very many paths, of which few are in the document.
func TestManyPaths(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	p.step("mkdir a b; seq 1 12000 | sed 's,.*,a/&.txt,' | xargs touch; seq 1 20000 >b/long.txt")
	tab := open(browser.Start(t), t, p.serve().url)
	tab.press("nav a", "work")
	tab.press(rows, "#1")
	tab.text(".pathbox .note", "12,003 paths")
	tab.press(".path-row", "a/")
	tab.wait(`document.querySelector(".paths .space").clientHeight > 200000`)
	if n := eval[int](tab, `document.querySelectorAll("*").length`); n > 1500 {
		t.Errorf("%d elements are in the document", n)
	}
	eval[bool](tab, `document.querySelector(".paths").focus(), true`)
	tab.keys(kb.End)
	tab.keys(kb.ArrowRight)
	tab.text(".path-row", "long.txt")
	tab.keys(kb.ArrowRight)
	tab.wait(`document.querySelectorAll(".line.add").length > 5 && document.querySelector(".diffbox .bar").textContent.includes("+20,000")`)
	eval[bool](tab, `document.querySelector(".diff").focus(), true`)
	tab.keys(kb.End)
	tab.text(".line.add", "20000")
}
