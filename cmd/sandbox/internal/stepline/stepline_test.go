package stepline

import "testing"

func TestChanged(t *testing.T) {
	for want, got := range map[string]string{
		"step 7: 1 path changed, undo with: sandbox undo\n":                                                Changed(7, 1, "", Undo("", "", "")),
		"step -12: 30 paths changed in /a, undo with: sandbox undo --working-dir '/a b' --undo-dir ../u\n": Changed(-12, 30, " in /a", Undo("/a b", "../u", "")),
		"step 1: 0 paths changed, undo with: sandbox undo --config-file c.toml\n":                          Changed(1, 0, "", Undo("", "", "c.toml")),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestDecimal(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 9: "9", 10: "10", 9070500: "9070500", -1: "-1"} {
		if got := Decimal(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
}
