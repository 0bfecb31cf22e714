package ui

import (
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/codeagent/sandbox/tests/kit/browser"
)

// TestDecisions answers questions by keyboard and by mouse, from two tabs.
func TestDecisions(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"a/1": "1", "a/2": "2", "a/3": "3", "b/1": "1", "b/2": "2", "b/3": "3", "c/1": "1", "c/2": "2", "c/3": "3"})
	p.live("--safeguard-deletes", "3", "--safeguard-timeout", "10m")
	chromium := browser.Start(t)
	s := p.serve()
	tab := open(chromium, t, s.url)
	tab.press("nav a", "Decisions")
	tab.text("main", "Nothing waits")

	ended := p.background("run", "--", "rm", "-r", "a")
	tab.text(".question", "rm -r a")
	tab.text("#urgent", "A decision is needed")
	tab.text(".question .asker", "Asked by rm -r a")
	tab.wait(`document.title.startsWith("(1)") && document.querySelector("nav .badge").textContent === "1"`)
	tab.shoot("decision-1280-light")
	tab.keys("j")
	tab.wait(`document.activeElement.matches(".question")`)
	tab.keys("a")
	if code := ended(); code != 0 {
		t.Errorf("allowed, and rm ended with %d", code)
	}
	tab.text("main", "Nothing waits")
	tab.text("td", "allow")
	tab.wait(`document.querySelector("nav .badge") === null && !document.title.startsWith("(")`)

	ended = p.background("run", "--", "rm", "-r", "b")
	tab.text(".question", "rm -r b")
	tab.press(".question button", "Deny")
	if code := ended(); code == 0 {
		t.Error("denied, and rm ended with 0")
	}
	if got := p.read("b/1") + p.read("b/2"); got != "12" {
		t.Errorf("after a denial: %q", got)
	}
	tab.text("td", "deny")

	// Two tabs answer one question: the second is told. Its answer is held back by
	// asking while it does not hear of events.
	two := open(chromium, t, s.base()+"#/decisions")
	two.text("main", "Decided")
	ended = p.background("run", "--", "rm", "-r", "c")
	two.text(".question", "rm -r c")
	tab.text(".question", "rm -r c")
	two.expect("409|404")
	tab.expect("409|404")
	answers := eval[[]int](two, `(async () => {
		const Authorization = "Bearer " + localStorage.getItem("sandbox-token");
		const { pending } = await (await fetch("/api/decisions", { headers: { Authorization } })).json();
		const send = (allow) => fetch("/api/sessions/" + pending[0].session + "/decisions/" + pending[0].safeguard_id, { method: "POST", headers: { "Content-Type": "application/json", "X-Sandbox-UI": "1", Authorization }, body: JSON.stringify({ allow }) }).then((r) => r.status);
		return [await send(true), await send(false)];
	})()`)
	if answers[0] != 204 || answers[1] < 400 {
		t.Errorf("two answers to one question: %v", answers)
	}
	if code := ended(); code != 0 {
		t.Errorf("allowed first, and rm ended with %d", code)
	}
	tab.text("main", "Nothing waits")
	tab.keys(kb.Escape)
}

// TestNotification: a question raises the browser's notification only while the page
// is in the background.
func TestNotification(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"a/1": "1", "a/2": "2"})
	p.live("--safeguard-deletes", "2", "--safeguard-timeout", "10m")
	tab := open(browser.Start(t), t, p.serve().url)
	tab.text("nav", "Decisions")
	eval[bool](tab, `(() => {
		window.raised = [];
		window.Notification = class { constructor(title, o) { window.raised.push(title + ": " + o.body) } close() {} };
		window.Notification.permission = "granted";
		Object.defineProperty(document, "hidden", { get: () => true });
		return true;
	})()`)
	ended := p.background("run", "--", "rm", "-r", "a")
	tab.wait(`window.raised.length === 1 && window.raised[0].includes("decision is needed")`)
	tab.press("nav a", "Decisions")
	tab.press(".question button", "Allow")
	if code := ended(); code != 0 {
		t.Errorf("rm ended with %d", code)
	}
}
