package console

import (
	"math"
	"testing"
)

func TestShownNamesAreHarmless(t *testing.T) {
	for name, want := range map[string]string{
		"plain-ü.txt": "plain-ü.txt", "a\nb": `"a\nb"`, "\x1b[2J": `"\x1b[2J"`, "x\xff": `"x\xff"`, "with space": "with space",
	} {
		if got := Shown(name); got != want {
			t.Errorf("%q shown as %s, want %s", name, got, want)
		}
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		part  float64
		ascii bool
		want  string
	}{
		{0, false, ""}, {-1, false, ""}, {math.NaN(), false, ""}, {1e-9, false, "▏"}, {0.5, false, "██"}, {0.6, false, "██▍"}, {1, false, "████"}, {math.Inf(1), false, "████"},
		{1e-9, true, "#"}, {0.5, true, "##"}, {7, true, "####"},
	} {
		if got := Bar(c.part, 4, c.ascii); got != c.want {
			t.Errorf("%v: %q, want %q", c.part, got, c.want)
		}
	}
}
