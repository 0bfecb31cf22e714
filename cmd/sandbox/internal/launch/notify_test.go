package launch

import (
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
)

// TestMessengers: on no system is a question part of a script, or an option of the program that shows it.
func TestMessengers(t *testing.T) {
	message := "-e 'do shell script \"id\"'; $(calc) `calc` \" & %PATH% \n" + strings.Repeat("x", 1000)
	for system, c := range map[string]struct {
		name string
		args []string // before the text, or all of them
		env  string   // the variable with the text
	}{
		"linux":  {"notify-send", []string{"--app-name=sandbox", "--urgency=normal", "--", title}, ""},
		"darwin": {"/usr/bin/osascript", []string{"-e", "on run argv", "-e", "display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run", title}, ""},
		"windows": {`C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe`, []string{"-NoLogo", "-NoProfile", "-NonInteractive", "-Command",
			"Add-Type -AssemblyName System.Windows.Forms, System.Drawing; $n = New-Object System.Windows.Forms.NotifyIcon; " +
				"$n.Icon = [System.Drawing.SystemIcons]::Information; $n.Visible = $true; " +
				"$n.ShowBalloonTip(5000, $env:SANDBOX_NOTIFY_TITLE, $env:SANDBOX_NOTIFY_TEXT, 'Info'); Start-Sleep -Seconds 6; $n.Dispose()"}, "SANDBOX_NOTIFY_TEXT="},
	} {
		env := map[string]string{"DISPLAY": ":0", "SystemRoot": `C:\Windows`}
		d, name, ok := messengers(NotifyOptions{System: system, Getenv: func(k string) string { return env[k] }})
		if !ok || name != c.name {
			t.Errorf("%s: %q, %t", system, name, ok)
			continue
		}
		text := body(api.Pending{Message: message}, d.most)
		if n := len([]rune(text)); system == "windows" && n > 255 || n > maxBody+40 {
			t.Errorf("%s: %d characters", system, n)
		}
		args, vars := d.argv(text)
		want := c.args
		if c.env == "" {
			want = append(slices.Clone(want), text)
		} else if !slices.Contains(vars, c.env+text) {
			t.Errorf("%s: %q", system, vars)
		}
		if !slices.Equal(args, want) {
			t.Errorf("%s: %q", system, args)
		}
	}
	if _, _, ok := messengers(NotifyOptions{System: "windows", Getenv: func(string) string { return "" }}); ok {
		t.Error("a program is looked for in the current directory")
	}
}
