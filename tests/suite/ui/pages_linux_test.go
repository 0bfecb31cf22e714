package ui

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/codeagent/sandbox/tests/kit/browser"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/npm"
)

// finding is one of axe's.
type finding struct {
	ID     string
	Impact string
	Help   string
	Nodes  []string
}

// axe looks for what keeps people out. Nothing serious may be found.
func (p *tab) axe(source, where string) {
	p.t.Helper()
	eval[bool](p, `typeof axe !== "undefined" || ((() => {`+source+`})(), true)`)
	found := eval[string](p, `axe.run(document, { resultTypes: ["violations"] }).then((r) => JSON.stringify(r.violations
		.filter((v) => v.impact === "serious" || v.impact === "critical")
		.map((v) => ({ ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.slice(0, 4).map((n) => n.target.join(" ") + " " + n.html.slice(0, 160) + " " + (n.any[0]?.message ?? "")) }))))`)
	var list []finding
	if err := json.Unmarshal([]byte(found), &list); err != nil {
		p.t.Fatal(err)
	}
	for _, f := range list {
		p.t.Errorf("%s: axe: %s (%s): %s\n\t%s", where, f.ID, f.Impact, f.Help, strings.Join(f.Nodes, "\n\t"))
	}
}

// TestPages opens every page in both themes and two widths: nothing sticks out to the
// right, axe finds nothing serious, and the page reports no error.
func TestPages(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join(npm.Modules(t, drive.Module(t)+"/tests/suite/ui"), "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t, map[string]string{"notes.txt": "first\n", "d/1": "1", "d/2": "2"})
	p.live("--safeguard-deletes", "2", "--safeguard-timeout", "10m")
	story(t, p)
	p.sandbox("mark", "before-the-last")
	p.step("echo again >again.txt")
	p.sandbox("undo")
	p.write("outside.txt", "mine")
	ended := p.background("run", "--", "rm", "-r", "d")
	tab := open(browser.Start(t), t, p.serve().url)
	tab.expect("404|409") // of what this session does not have
	tab.text("nav .badge", "1")
	eval[bool](tab, `document.querySelector("nav ul a[href^='#/f/']").click(), true`)
	tab.wait(`document.querySelector("nav a[href$='/tree']") !== null && document.querySelectorAll("` + rows + `").length > 4`)
	folder := eval[string](tab, `document.querySelector("nav a[href^='#/f/']").getAttribute("href")`)
	session := strings.TrimSuffix(eval[string](tab, `document.querySelector("nav a[href$='/tree']").getAttribute("href")`), "/tree")
	pages := []struct{ name, hash, ready string }{
		{"overview", "#/", `document.querySelector("main article.card") && document.querySelector("main td")`},
		{"timeline", folder, `document.querySelectorAll("` + rows + `").length > 4`},
		{"step", folder + "/s/2?path=src%2Fmain.go", `document.querySelector(".line.add .t-str")`},
		{"file", folder + "/file?path=src%2Fmain.go", `document.querySelectorAll(".version").length === 2 && document.querySelector(".line.add")`},
		{"store", folder + "/store", `document.querySelector(".treemap .area")`},
		{"decisions", "#/decisions", `document.querySelector(".question")`},
		{"actors", session + "/tree", `document.querySelectorAll(".actor").length > 5`},
		{"network", session + "/network", `!document.querySelector("main").textContent.includes("Reading")`},
		{"machine", "#/machine", `document.querySelector("main .card, main .facts")`},
		{"config", "#/config", `document.querySelectorAll("main tr").length > 10`},
		{"clients", "#/clients", `document.querySelector("main .card")`},
		{"doctor", "#/doctor", `document.querySelectorAll("main tr").length > 3`},
	}
	for _, look := range []struct {
		width int64
		dark  bool
	}{{1280, false}, {1280, true}, {360, false}, {360, true}} {
		tab.size(look.width, map[bool]int64{true: 740, false: 800}[look.width == 360])
		tab.theme(look.dark)
		for _, page := range pages {
			eval[bool](tab, `location.hash = `+quote(page.hash)+`, true`)
			tab.wait(page.ready)
			name := fmt.Sprintf("%s-%d-%s", page.name, look.width, map[bool]string{true: "dark", false: "light"}[look.dark])
			eval[bool](tab, `new Promise((ok) => requestAnimationFrame(() => requestAnimationFrame(() => ok(true))))`)
			eval[bool](tab, `document.activeElement.blur(), true`)
			tab.shoot(name)
			if wide := eval[int](tab, `document.documentElement.scrollWidth`); int64(wide) > look.width {
				t.Errorf("%s is %d wide", name, wide)
			}
			// A theme has its own colours, a width its own layout: one look at each is enough.
			if look.dark == (look.width == 360) {
				tab.axe(string(source), name)
			}
		}
	}
	tab.size(1280, 800)
	eval[bool](tab, `location.hash = "#/decisions", true`)
	tab.press(".question button", "Deny")
	ended()
}

// TestKeyboard goes from the top of the page into the list, and opens a step.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"notes.txt": "first\n"})
	story(t, p)
	tab := open(browser.Start(t), t, p.serve().url)
	tab.text("nav", "work")
	focus := func(js string) {
		t.Helper()
		for range 60 {
			if eval[bool](tab, `(() => { const e = document.activeElement; return `+js+` })()`) {
				if !eval[bool](tab, `(() => { const e = document.activeElement; return e.matches(":focus-visible") && (getComputedStyle(e).outlineStyle !== "none") })()`) {
					t.Errorf("focus on %s is not seen", js)
				}
				return
			}
			tab.keys("\t")
		}
		t.Fatalf("the Tab key does not reach %s", js)
	}
	focus(`e.matches("nav a") && e.textContent.includes("work")`)
	tab.keys("\r")
	tab.wait(`document.querySelectorAll("` + rows + `").length === 4`)
	focus(`e.matches(".canvas")`)
	tab.keys("+")
	tab.keys("0")
	focus(`e.matches(".steplist")`)
	tab.keys("j")
	tab.keys("\r")
	tab.text(".step h2", "Step 3")
	tab.keys("/")
	tab.wait(`document.activeElement.id === "search"`)
	eval[bool](tab, `document.activeElement.blur(), true`)
	tab.keys("u")
	tab.text("dialog h2", "Undo 1 step")
	tab.keys("\x1b")
	tab.wait(`document.querySelector("dialog") === null`)

	// The theme is kept.
	tab.click("#theme")
	tab.click("#theme")
	tab.wait(`document.documentElement.dataset.theme === "dark" && getComputedStyle(document.body).backgroundColor === "rgb(21, 24, 29)"`)
	tab.do(chromedp.Reload())
	tab.wait(`document.readyState === "complete" && document.documentElement.dataset.theme === "dark" && document.querySelectorAll("` + rows + `").length === 4`)
}

// TestEnds: the page says so when a session ends, when the server does, and when it
// is signed out.
func TestEnds(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"notes.txt": "first\n"})
	stop := p.live()
	story(t, p)
	s := p.serve()
	chromium := browser.Start(t)
	stranger := open(chromium, t, s.base())
	stranger.expect("401")
	stranger.text("main", "not signed in")
	wrong := open(chromium, t, s.base()+"#token=wrong")
	wrong.expect("401|403")
	wrong.text("main", "not signed in")

	tab := open(chromium, t, s.url)
	tab.press("nav a", "work")
	tab.text("h1 small", "live")
	tab.expect("50[03]") // what is asked in the instant in which the session ends
	stop()
	tab.text("h1 small", "history only")
	tab.press(rows, "#4")
	tab.press(".stephead button", "Undo to here")
	tab.press("dialog button", "Undo 1 step")
	tab.text("#said", "Undone 1 step")
	if got := p.read("notes.txt"); got != "notes\n" {
		t.Errorf("an undo without a session: %q", got)
	}
	// Of a step that is undone meanwhile nobody knows a diff any more.
	tab.expect("50[03]|404.*/steps/4/|ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|Failed to fetch|401|ERR_EMPTY|ERR_CONNECTION_RESET")
	s.end()
	tab.text("#banner", "connection to sandbox ui is lost")
	tab.shoot("lost-1280-light")
	// Another one at the same port has other keys.
	p.serve("--port", s.port())
	tab.text("main", "not signed in")
}
