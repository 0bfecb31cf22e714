package wine_test

import (
	"bufio"
	"context"
	"regexp"
	"strings"

	"github.com/chromedp/chromedp"

	"github.com/codeagent/sandbox/tests/kit/browser"
)

// address is what "sandbox ui" prints.
var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+/#token=[\w-]+`)

// undoTwo looks for the folder's second step, and has it and the one after it undone, as a person does with the mouse.
const undoTwo = `(async () => {
	const until = async (look) => {
		for (;;) {
			const found = look();
			if (found) return found;
			await new Promise((next) => setTimeout(next, 20));
		}
	};
	const press = async (selector, text) => (await until(() =>
		[...document.querySelectorAll(selector)].find((e) => e.textContent.includes(text) && !e.disabled))).click();
	await press("nav a", "project");
	await press(".steplist .row", "#2");
	await press(".stephead button", "Undo to here");
	await press("dialog button", "Undo 2 steps");
	await until(() => document.querySelector("#said")?.textContent.includes("Undone 2 steps"));
	return true;
})()`

// undoByPage undoes all steps from the second one on by the page that sandbox.exe serves, in a browser.
func (w *windows) undoByPage() {
	t := w.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := w.command(ctx, "ui", "--no-open")
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	url := ""
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		url = address.FindString(lines.Text())
	}
	if url == "" {
		t.Fatalf("sandbox ui printed no address: %s", log.String())
	}
	chromium := browser.Start(t)
	tab, closed := context.WithTimeout(chromium, patience)
	defer closed()
	if err := chromedp.Do(tab, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Run(tab, chromedp.Evaluate[bool](undoTwo, chromedp.EvalAwaitPromise)); err != nil {
		shows, _ := chromedp.Run(chromium, chromedp.Evaluate[string](`document.body.innerText`))
		t.Fatalf("the page: %v\n%s\n%s", err, shows, log.String())
	}
}
