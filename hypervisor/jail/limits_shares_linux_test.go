package jail

import "testing"

func TestShare(t *testing.T) {
	for all, want := range map[uint64]uint64{0: 0, 1: 1, 2: 2, 4: 3, 128: 96, 1 << 62: 3 << 60} {
		if got := share(all); got != want {
			t.Errorf("of %d: %d, want %d", all, got, want)
		}
	}
}
