package control

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAttended: sessions see that a process shows questions for as long as it does, and what killed ones have left is removed.
func TestAttended(t *testing.T) {
	dir := t.TempDir()
	if Attended(dir) || Attended(filepath.Join(dir, "none")) {
		t.Error("somebody is there before anybody has come")
	}
	first, err := Attend(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Attend(dir)
	if err != nil {
		t.Fatal(err)
	}
	if first(); !Attended(dir) {
		t.Error("nobody is there when one of two has left")
	}
	second()
	second()
	const killed = "2147483647-1" + attendsSuffix // no process has that number
	for _, name := range []string{killed, "x.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if Attended(dir) {
		t.Error("somebody is there when all have left")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "x.json" {
		t.Errorf("%v, %v", left, err)
	}
	if _, err := Attend(filepath.Join(dir, "none")); err == nil {
		t.Error("no error where there is no directory")
	}
}
