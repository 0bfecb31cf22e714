package format

import "testing"

func TestShownNamesAreHarmless(t *testing.T) {
	for name, want := range map[string]string{
		"plain-ü.txt": "plain-ü.txt", "a\nb": `"a\nb"`, "\x1b[2J": `"\x1b[2J"`, "x\xff": `"x\xff"`, "with space": "with space",
	} {
		if got := Shown(name); got != want {
			t.Errorf("%q shown as %s, want %s", name, got, want)
		}
	}
}
