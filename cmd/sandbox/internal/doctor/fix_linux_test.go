package doctor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A setting is written once and carried out; a file of somebody else's stays as it is.
func TestInstall(t *testing.T) {
	root := t.TempDir()
	done := filepath.Join(root, "done")
	f := Fix{What: "test", File: "/etc/x.conf", Content: "a = 1\n", Apply: []string{"sh", "-c", "echo applied >>" + done}}
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // again does no harm
		if err := f.Install(t.Context(), root); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(root, f.File)); err != nil || string(b) != f.Content {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := os.ReadFile(done); err != nil || string(b) != "applied\napplied\n" {
		t.Errorf("%q, %v", b, err)
	}
	f.Content = "a = 2\n"
	if err := f.Install(t.Context(), root); err == nil || !strings.Contains(err.Error(), "another content") {
		t.Errorf("somebody else's file: %v", err)
	}
	if b, _ := os.ReadFile(filepath.Join(root, f.File)); string(b) != "a = 1\n" {
		t.Errorf("%q", b)
	}
	f.Content, f.Apply = "a = 1\n", []string{"false"}
	if err := f.Install(t.Context(), root); err == nil || !strings.Contains(err.Error(), "false failed") {
		t.Errorf("a command that fails: %v", err)
	}
}

// What --fix prints can be typed.
func TestCommandsAreShell(t *testing.T) {
	root := t.TempDir()
	f := *sysctl("user.max_user_namespaces", "15000")
	f.File, f.Apply = filepath.Join(root, "x.conf"), []string{"true"}
	if out, err := exec.Command("sh", "-ec", f.Commands()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if b, err := os.ReadFile(f.File); err != nil || string(b) != "user.max_user_namespaces = 15000\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// Each switch has the setting that turns it, and a container's filter has none.
func TestFixes(t *testing.T) {
	const key = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
	c := userNamespaceCause(unix.EACCES, 1000, func(path string) string { return map[string]string{key: "1"}[path] })
	if c.fix == nil || c.fix.File != profileFile || !strings.Contains(c.fix.Content, "userns,") || !strings.Contains(c.fix.Content, program()) {
		t.Errorf("AppArmor: %+v", c.fix)
	}
	c = userNamespaceCause(unix.ENOSPC, 1000, func(string) string { return "" })
	if c.fix == nil || c.fix.Content != "user.max_user_namespaces = 15000\n" {
		t.Errorf("used up: %+v", c.fix)
	}
	// Root can make them all the same, and mends it for others.
	forbidden := func(path string) string {
		return map[string]string{key: "1", "/proc/sys/kernel/unprivileged_userns_clone": "0"}[path]
	}
	if got := Fixes([]Finding{{Fix: c.fix}}, forbidden); len(got) != 3 || got[1].File == got[0].File || got[2].File != profileFile {
		t.Errorf("as root: %+v", got)
	}
	if got := Fixes(nil, func(string) string { return "" }); len(got) != 0 {
		t.Errorf("nothing is forbidden: %+v", got)
	}
	for _, bad := range []string{"", "/opt/a*b", "/opt/a\nb", `/opt/"a`, "/opt/@{HOME}"} {
		if f := profile(bad); f != nil {
			t.Errorf("%q stands in a profile: %+v", bad, f)
		}
	}
}
