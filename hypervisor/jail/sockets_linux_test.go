package jail

import (
	"slices"
	"testing"
)

// TestW7AbstractNames: the name of an abstract socket may be the path of anything, which is not covered for that; a relative one leads nowhere that is known.
func TestW7AbstractNames(t *testing.T) {
	got := listedSockets("Num       RefCount Protocol Flags    Type St Inode Path\n" +
		"0000000000000000: 00000002 00000000 00010000 0001 01 16166 /run/a b\n" +
		"0000000000000000: 00000002 00000000 00010000 0001 01 16167 @/home/u/project\n" +
		"0000000000000000: 00000002 00000000 00010000 0001 01 16168 there/relative\n" +
		"0000000000000000: 00000003 00000000 00000000 0001 03 16169\n")
	if !slices.Equal(got, []bound{{name: "/run/a b"}}) {
		t.Errorf("%+v", got)
	}
}
