package ui

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/codeagent/sandbox/tests/kit/browser"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestDocuments goes the way of docs/ui.md, through a project as people have one, and makes its pictures.
func TestDocuments(t *testing.T) {
	t.Parallel()
	require.Program(t, "make", "make")
	p := newPlace(t, map[string]string{
		"Makefile":      "generate:\n\tmkdir -p src/api && for n in cart item order price user; do echo \"export const $$n = 1;\" >src/api/$$n.js; done\n\ntest:\n\t@grep -q discount src/cart.js && echo ok >report.txt\n\nbuild:\n\tmkdir -p dist && cat src/*.js src/api/*.js >dist/shop.js\n",
		"src/cart.js":   "// The cart of the shop.\nexport function total(items) {\n\tlet sum = 0;\n\tfor (const item of items) sum += item.price * item.count;\n\treturn sum;\n}\n",
		"docs/intro.md": "# The shop\n", "docs/api.md": "# API\n", "docs/cart.md": "# Cart\n", "docs/faq.md": "# FAQ\n",
	})
	const mine = "# Mine, for all projects.\n[undo]\nmax_steps = 200\n\n[safeguards]\ndeletes = 20 # ask before more than that\n"
	put(t, p.config(), mine)
	p.live("-C", "shop=.", "--safeguard-deletes", "3", "--safeguard-timeout", "10m")
	p.sandbox("run", "--service", "dev", "--", "sleep", "100000")
	p.sandbox("run", "--", "make", "generate")
	if err := p.Bare(t.Context(), "run", "--", "make", "test").Run(); err == nil {
		t.Error("the test of the story does not fail")
	}
	p.sandbox("mark", "before-discounts")
	p.sandbox("run", "--", "sed", "-i", "-e", "s/export function total(items) {/export function total(items, discount = 0) {/", "-e", "s/return sum;/return Math.round(sum * (100 - discount)) \\/ 100; \\/\\/ in cents/", "src/cart.js")
	p.sandbox("run", "--", "make", "test")
	p.sandbox("run", "--", "make", "build")
	p.sandbox("run", "--", "rm", "dist/shop.js")
	p.sandbox("undo")

	tab := open(browser.Start(t), t, p.serve().url)
	tab.press("nav a", "shop")
	tab.press(rows, "sed -i")
	tab.press(".path-row", "cart.js")
	tab.text(".line.add code", "discount = 0")
	tab.wait(`document.querySelectorAll(".entry.undone").length === 1 && document.querySelector(".served") !== null && document.querySelector(".line.add .t-num") !== null`)
	tab.size(1280, 860)
	eval[bool](tab, `document.activeElement.blur(), true`)
	tab.document("step")
	tab.size(1280, 800)

	tab.press(".stephead button", "Undo to here")
	tab.wait(`[...document.querySelectorAll("dialog button.primary")].some((b) => !b.disabled)`)
	tab.document("undo")
	tab.keys(kb.Escape)
	tab.wait(`document.querySelector("dialog") === null`)

	tab.press("nav a", "Configuration")
	tab.click("#level-user")
	tab.wait(`document.querySelector("#configtext")?.value.includes("max_steps")`)
	tab.write("#configtext", strings.Replace(strings.Replace(mine, "200", "500", 1), "20 #", "10 #", 1)+"\n[network]\npolicy = \"ask\" # before a command connects to something\n")
	tab.click("#configsave")
	tab.text("dialog td", "network.policy")
	tab.document("config")
	tab.keys(kb.Escape)
	tab.wait(`document.querySelector("dialog") === null`)
	tab.click("#configdiscard")

	ended := p.background("run", "--", "rm", "-r", "docs")
	tab.press("nav a", "Decisions")
	tab.text(".question .asker", "rm -r docs")
	eval[bool](tab, `document.activeElement.blur(), true`)
	tab.document("decision")
	tab.press("nav a", "shop")
	tab.press("nav a", "Actors")
	tab.text(".actor.a-held", "interceptor")
	eval[bool](tab, `document.activeElement.blur(), true`)
	tab.document("actors")
	tab.press("nav a", "Decisions")
	tab.press(".question button", "Deny")
	ended()
}

// TestDocumentsHavePictures: the documents show pictures that a test makes, and no others are kept.
func TestDocumentsHavePictures(t *testing.T) {
	text := textOf("../../../docs/ui.md") + strings.ReplaceAll(textOf("../../../README.md"), "docs/ui/", "ui/")
	var shown, kept []string
	for _, m := range regexp.MustCompile(`\]\(ui/(\w+)\.png\)`).FindAllStringSubmatch(text, -1) {
		shown = append(shown, m[1])
	}
	files, err := os.ReadDir("../../../docs/ui")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		kept = append(kept, strings.TrimSuffix(f.Name(), ".png"))
	}
	var tests strings.Builder
	sources, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range sources {
		tests.WriteString(textOf(f.Name()))
	}
	for _, name := range shown {
		if !slices.Contains(kept, name) || !strings.Contains(tests.String(), "document("+quote(name)+")") {
			t.Errorf("docs/ui/%s.png is shown: it is kept, %v; a test makes it, %v", name, slices.Contains(kept, name), strings.Contains(tests.String(), "document("+quote(name)+")"))
		}
	}
	for _, name := range kept {
		if !slices.Contains(shown, name) {
			t.Errorf("docs/ui/%s.png is not shown", name)
		}
	}
}
