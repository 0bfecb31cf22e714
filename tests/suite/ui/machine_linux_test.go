package ui

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/browser"
)

// TestBuild makes an image by the page: how it goes is shown while it does, it can be cancelled, and why it failed is said.
// The packages come from a program of the test's in apt's place, which waits, says something that must stay text, and fails.
func TestBuild(t *testing.T) {
	t.Parallel()
	axe := axeSource(t)
	p := newPlace(t, nil)
	bin := t.TempDir()
	fifo := filepath.Join(bin, "go")
	script := fmt.Sprintf("#!/bin/sh\nuntil [ -e %s ]; do sleep 0.05; done\necho 'E: <img src=x onerror=alert(1)> no such mirror' >&2\nexit 100\n", fifo)
	for _, name := range []string{"apt-get", "apt-cache"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := p.serveWith([]string{"PATH=" + bin + ":" + os.Getenv("PATH")})
	chromium := browser.Start(t)
	tab := open(chromium, t, s.url)
	tab.press("nav a", "Machine")
	tab.text("main", "None was built")
	tab.text("main", "No session runs")
	tab.click("#build")
	tab.text("dialog h2", "Build an image")
	tab.axe(axe, "the question what to build")
	tab.press("dialog button.primary", "Build")
	tab.text(".build .tag", "building")
	tab.text(".build .output", "downloading")
	tab.wait(`document.querySelector(".build [role=progressbar]") !== null && document.querySelector("#build").disabled && document.activeElement.id === "cancelbuild"`)
	tab.shoot("build-1280-light")
	tab.axe(axe, "a build")

	// Another page, and one that comes later, sees the same.
	two := open(chromium, t, s.base()+"#/machine")
	two.text(".build .tag", "building")
	two.click("#cancelbuild")
	tab.text(".build .tag", "cancelled")
	two.text(".build .tag", "cancelled")

	if err := os.WriteFile(fifo, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tab.click("#build")
	tab.press("dialog button.primary", "Build")
	tab.text(".build .tag", "failed")
	tab.text(".build .problem", "<img src=x onerror=alert(1)> no such mirror")
	tab.size(360, 740)
	tab.theme(true)
	tab.shoot("build-failed-360-dark")
	tab.axe(axe, "a failed build, dark and narrow")
	if wide := eval[int](tab, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("it is %d wide", wide)
	}
	if eval[bool](tab, `document.querySelector("main img, [onerror]") !== null`) {
		t.Error("what a program said became more than text")
	}

	// What a build says is shown without a new button in place of the one that somebody is about to press.
	if shown := eval[string](tab, `(async () => {
		const { MachineView } = await import("./machine.js");
		const real = window.fetch;
		const lines = ["one"];
		let late = null;
		window.fetch = async (url) => {
			const text = JSON.stringify(String(url).includes("machine/build") ? { state: "running", started_at: "2026-11-25T02:43:58Z", lines } : []);
			await late;
			return new Response(text, { headers: { "Content-Type": "application/json" } });
		};
		const view = new MachineView({ overview: { sessions: [] }, say() {} });
		try {
			await view.load();
			const buttons = () => [...view.el.querySelectorAll("button")];
			const before = buttons();
			lines.push("two");
			await view.load();
			let come;
			late = new Promise((ok) => { come = ok; });
			const slow = view.load(); // its answer comes after that of the next one, which knows more
			late = null;
			lines.push("three");
			const next = view.load();
			await Promise.race([next, new Promise((ok) => setTimeout(ok, 100))]);
			come();
			await Promise.all([slow, next]);
			return JSON.stringify([before.length, buttons().map((b, i) => b === before[i]), view.el.querySelector("pre").textContent]);
		} finally {
			view.close();
			window.fetch = real;
		}
	})()`); shown != `[2,[true,true],"one\ntwo\nthree"]` {
		t.Errorf("before and after a line of a build: %s", shown)
	}
}

// TestConsole shows a virtual machine: its state, its facts, and the end of its console as text. The machine is the page's
// idea of one, so that it says what no kernel says.
func TestConsole(t *testing.T) {
	t.Parallel()
	axe := axeSource(t)
	p := newPlace(t, nil)
	p.live()
	tab := open(browser.Start(t), t, p.serve().url)
	tab.text("main", "1 session")
	eval[bool](tab, `(() => {
		const real = window.fetch;
		window.lines = ["[    0.41] Run /init as init process", "<img src=x onerror=alert(1)> \u202e", "systemd \u001b[31mred"];
		window.fetch = async (...a) => {
			const r = await real(...a);
			if (!String(a[0]).endsWith("/api/overview")) return r;
			const v = await r.json();
			Object.assign(v.sessions[0], { isolation: "vm", console: window.lines, machine: { isolation: "vm (QEMU)", acceleration: "KVM", memory: "2048 MiB", cpus: "2", kernel: "6.12.9-cloud", pid: "4711", paused: "true", started_at: "2026-11-25T02:43:58Z" } });
			return new Response(JSON.stringify(v), { status: 200, headers: { "Content-Type": "application/json" } });
		};
		return true;
	})()`)
	tab.press("nav a", "Machine")
	p.step("true") // the session's state is asked for again
	tab.text(".console", "Run /init as init process")
	tab.text(".console", "<img src=x onerror=alert(1)> ⟨U+202E⟩")
	tab.text(".console", "␛[31mred")
	tab.text("main .tag", "paused")
	tab.text("main .facts", "KVM")
	tab.shoot("console-1280-light")
	tab.axe(axe, "a machine")
	eval[bool](tab, `window.lines.push("one line more"), true`)
	tab.text(".console", "one line more")
}

// TestRestart: an actor that is restarted while one looks is seen and told of; with reduced motion nothing moves.
func TestRestart(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	p.live()
	tab := open(browser.Start(t), t, p.serve().url)
	tab.theme(false) // and reduced motion
	tab.press("nav a", "work")
	tab.press("nav a", "Actors")
	tab.text(".actor", "interceptor")
	again := func(n int) {
		t.Helper()
		eval[bool](tab, fmt.Sprintf(`(() => {
			const real = window.real ??= window.fetch;
			window.fetch = async (...a) => {
				const r = await real(...a);
				if (!String(a[0]).endsWith("/tree")) return r;
				const v = await r.json();
				const walk = (n) => { if (n.name === "interceptor") Object.assign(n, { restarts: %d, last_error: "<b>index out of range</b>", mailbox: 3 }); (n.children ?? []).forEach(walk) };
				walk(v.root);
				return new Response(JSON.stringify(v), { status: 200, headers: { "Content-Type": "application/json" } });
			};
			return true;
		})()`, n))
	}
	again(1)
	tab.text(".actor.changed", "interceptor")
	tab.text(".actor.a-bad .error", "<b>index out of range</b>")
	tab.text(".actor.a-bad", "restarts 1")
	tab.text(".actor.a-bad .queue", "queue 3")
	tab.text("#said", "interceptor was restarted")
	tab.shoot("restart-1280-light")
	tab.moving()
	again(2)
	tab.text(".actor.flash", "interceptor")
}

// TestStore follows an area of the picture to its step, and does the housekeeping.
func TestStore(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"a": "1"})
	p.live()
	p.step("seq 1 20000 >a")
	p.step("seq 1 10 >a; seq 1 100 >b")
	tab := open(browser.Start(t), t, p.serve().url)
	tab.press("nav a", "work")
	tab.press("nav a", "Store")
	tab.wait(`document.querySelectorAll(".treemap .area").length === 2`)
	tab.text(".treemap", "#2")
	tab.text("main .limit", "Steps 2 of 100")
	tab.wait(`document.querySelector("[role=meter][aria-label=Steps]").getAttribute("aria-valuenow") === "2"`)
	tab.click("#gc")
	tab.text("dialog h2", "Housekeeping")
	tab.press("dialog button", "Run it")
	tab.text("#said", "Housekeeping")
	tab.wait(`document.querySelector("dialog") === null`)
	eval[bool](tab, `document.querySelector(".treemap .link").dispatchEvent(new MouseEvent("click", { bubbles: true })), true`)
	tab.text(".step h2", "Step 2")
}

// TestDoctor: what is wrong stands first, with what to do about it, and what a file of a fix would have.
func TestDoctor(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	tab := open(browser.Start(t), t, p.serve().url)
	tab.text("main", "No session runs")
	eval[bool](tab, `(() => {
		const real = window.fetch;
		window.fetch = async (...a) => String(a[0]).endsWith("/api/doctor") ? new Response(JSON.stringify([
			{ name: "kernel", state: "ok", detail: "Linux 6.12" },
			{ name: "virtual machine", state: "warn", detail: "image: none was built", advice: "run 'sandbox guest build'" },
			{ name: "jail", state: "fail", detail: "namespaces are refused <b>", advice: "load the profile", fix: { what: "A profile for AppArmor", file: "/etc/apparmor.d/sandbox", content: "abi <abi/4.0>,\nuserns,\n", apply: ["apparmor_parser", "-r", "/etc/apparmor.d/sandbox"] } },
		]), { status: 200, headers: { "Content-Type": "application/json" } }) : real(...a);
		return true;
	})()`)
	tab.press("nav a", "Doctor")
	tab.text("main", "2 findings to look at, of 3")
	tab.wait(`document.querySelector("main tbody tr").textContent.includes("namespaces are refused <b>") && document.querySelector("main tbody .tag.bad").textContent === "fail"`)
	tab.text("main .advice", "run 'sandbox guest build'")
	tab.press("main summary", "A profile for AppArmor")
	tab.text("main details pre", "apparmor_parser -r")
	tab.shoot("doctor-findings-1280-light")
}

// TestServices: a service is in the picture of the time as long as it runs, and is named while it does.
func TestServices(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	p.live()
	p.step("echo 1 >a")
	tab := open(browser.Start(t), t, p.serve().url)
	tab.press("nav a", "work")
	tab.text(rows, "#1")
	tab.wait(`!document.querySelector(".legend").textContent.includes("Service")`)
	p.sandbox("run", "--service", "dev", "--", "sleep", "1000")
	tab.text(".served", "dev")
	tab.text(".served", "sleep 1000")
	tab.text(".legend .key", "Service")
	p.step("echo 2 >a")
	tab.text(rows, "#2")
	tab.shoot("service-1280-light")
	eval[bool](tab, `(() => { const c = document.querySelector(".canvas"); const r = c.getBoundingClientRect(); c.dispatchEvent(new PointerEvent("pointermove", { clientX: r.left + r.width - 10, clientY: r.top + 6, bubbles: true })); return true })()`)
	tab.text(".tip.on", "service dev: sleep 1000")
	p.sandbox("service", "stop", "dev")
	tab.wait(`document.querySelector(".served") === null`)
	tab.text(".legend .key", "Service")
}
