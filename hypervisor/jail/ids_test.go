package jail

import (
	"strings"
	"testing"
)

func TestIDMaps(t *testing.T) {
	own, err := parseIDs(strings.NewReader("         0     100000      65536\n     70000          5          2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := idIdentity(own), "0 0 65536\n70000 70000 2\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, c := range []struct {
		a, b uint32
		want string
	}{
		{0, 61000, "0 61000 1\n1 1 60999\n61000 0 1\n61001 61001 4535\n70000 70000 2\n"},
		{0, 1, "0 1 1\n1 0 1\n2 2 65534\n70000 70000 2\n"},
		{0, 65535, "0 65535 1\n1 1 65534\n65535 0 1\n70000 70000 2\n"},
		{0, 70001, "0 70001 1\n1 1 65535\n70000 70000 1\n70001 0 1\n"},
		{5, 5, "0 0 65536\n70000 70000 2\n"},
		{0, 65536, ""},
	} {
		got, err := swapIDs(own, c.a, c.b)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%d, %d: %q, %v", c.a, c.b, got, err)
		}
	}
	for _, bad := range []string{"x", "0 0", "0 0 99999999999"} {
		if own, err := parseIDs(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: %v", bad, own)
		}
	}
}
