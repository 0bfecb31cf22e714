package ui

import (
	"fmt"
	"net"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/browser"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestNetwork shows what a session's command is connected to, with its program, its bytes and the rule, and what was
// refused, with the flag that would have allowed it. What has ended is gone from the page.
func TestNetwork(t *testing.T) {
	t.Parallel()
	require.TUN(t)
	require.Program(t, "bash", "bash")
	axe := axeSource(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			accepted <- c
		}
	}()
	p := newPlace(t, nil)
	stop := p.live("--network", "allowlist", "--allow-host", fmt.Sprintf("127.0.0.1:%d", port), "--deny-host", "evil.test")
	tab := open(browser.Start(t), t, p.serve().url)
	tab.press("nav a", "work")
	tab.press("nav a", "Network")
	tab.text("main", "Nothing is connected")
	tab.text("main", "Nothing was refused")
	tab.text("main .facts", "evil.test")

	ended := p.background("run", "--", "bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/host.sandbox.internal/%d; echo twelve bytes >&3; read line <&3", port))
	tab.text("main tr", fmt.Sprintf(":%d", port))
	tab.text("main tr", "bash")
	tab.text("main tr", "13 B")
	tab.text("main tr code", fmt.Sprintf("127.0.0.1:%d", port))
	_ = p.Bare(t.Context(), "run", "--", "bash", "-c", "exec 4<>/dev/tcp/198.51.100.7/81").Run()
	_ = p.Bare(t.Context(), "run", "--", "bash", "-c", "exec 4<>/dev/tcp/198.51.100.7/81").Run()
	_ = p.Bare(t.Context(), "run", "--", "bash", "-c", "exec 4<>/dev/tcp/name.test/81").Run()
	tab.text("main tr", "--allow-host 198.51.100.7:81")
	tab.text("main tr", "--allow-host name.test")
	tab.wait(`[...document.querySelectorAll("main tr")].some((r) => r.textContent.includes("198.51.100.7:81") && r.children[3].textContent >= "2")`)
	eval[bool](tab, `document.activeElement.blur(), true`)
	tab.document("network")
	tab.axe(axe, "the network")

	// What has the focus keeps it while the figures change.
	focused := `document.activeElement.getAttribute("aria-label") === "Copy --allow-host 198.51.100.7:81"`
	eval[bool](tab, `[...document.querySelectorAll("main button")].find((b) => b.getAttribute("aria-label").includes("198.51.100.7")).focus(), window.first = document.activeElement, true`)
	tab.wait(`window.first.isConnected === false && ` + focused)

	tab.size(360, 740)
	tab.theme(true)
	tab.shoot("network-live-360-dark")
	tab.axe(axe, "the network, dark and narrow")
	if wide := eval[int](tab, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("it is %d wide", wide)
	}
	c := <-accepted
	if _, err := c.Write([]byte("enough\n")); err != nil {
		t.Error(err)
	}
	_ = c.Close()
	ended()
	tab.text("main", "Nothing is connected")
	tab.expect("404|50[03]")
	stop()
	tab.text("main", "The session has ended")
}

// TestNoNetwork: a session without a network says so.
func TestNoNetwork(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	p.live()
	tab := open(browser.Start(t), t, p.serve().url)
	tab.press("nav a", "work")
	tab.press("nav a", "Network")
	tab.text("main", "have no network")
}
