package ui

import (
	"encoding/json"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/browser"
)

// TestKilled: the supervisor is killed while a command runs and a page looks on. The page says that the session is gone, shows
// the history that its log has, and undoes in it; what the command had done is rolled back.
func TestKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"notes.txt": "first\n"})
	p.live()
	p.step("echo second >notes.txt")
	var st struct{ PID int }
	if err := json.Unmarshal([]byte(p.sandbox("status", "--json")), &st); err != nil || st.PID <= 1 {
		t.Fatal(err, st.PID)
	}
	tab := open(browser.Start(t), t, p.serve().url)
	tab.press("nav a", "work")
	tab.text(rows, "#1")
	ended := p.background("run", "--", "sh", "-c", "echo third >notes.txt; echo new >new.txt; sleep 1000")
	tab.text(".running", "runs")
	tab.expect("50[03]|404|409")
	if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ended()
	tab.text("h1 small", "history only")
	tab.wait(`document.querySelector(".running").textContent === ""`)
	tab.press(rows, "#1")
	tab.press(".stephead button", "Undo to here")
	tab.wait(`document.querySelector("dialog") !== null && [...document.querySelectorAll("dialog button.primary")].some((b) => !b.disabled)`)
	tab.press("dialog button.primary", "Undo")
	tab.text("#said", "Undone")
	if got := p.read("notes.txt") + p.read("new.txt"); got != "first\nno new.txt" {
		t.Errorf("after the kill and the undo: %q", got)
	}
}
