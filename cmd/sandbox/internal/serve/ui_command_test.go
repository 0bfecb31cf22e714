package serve

import (
	"slices"
	"testing"
)

// TestOpener: the address is one argument of a program of the system's.
func TestOpener(t *testing.T) {
	const address = "http://127.0.0.1:4711/#token=a&b;calc.exe"
	env := map[string]string{"DISPLAY": ":0", "SystemRoot": `C:\Windows`, "PATH": `.;C:\project`}
	for system, want := range map[string][]string{
		"linux":   {"xdg-open", address},
		"darwin":  {"/usr/bin/open", address},
		"windows": {`C:\Windows\System32\rundll32.exe`, "url.dll,FileProtocolHandler", address},
	} {
		if got, err := opener(system, func(k string) string { return env[k] }, address); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", system, got, err)
		}
	}
	for _, system := range []string{"linux", "windows"} {
		if got, err := opener(system, func(string) string { return "" }, address); err == nil {
			t.Errorf("%s without a desktop: %q", system, got)
		}
	}
}
