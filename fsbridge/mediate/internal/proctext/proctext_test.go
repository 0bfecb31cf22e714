package proctext

import "testing"

func TestTexts(t *testing.T) {
	const status = "Name:\tsh\nUmask:\t0027\nState:\tS (sleeping)\nTgid:\t4711\nNgid:\t0\n"
	if pid, ok := Process([]byte(status)); !ok || pid != 4711 {
		t.Errorf("process %d, %v", pid, ok)
	}
	if nr, ok := Call([]byte("61 0x1 0x2")); !ok || nr != 61 {
		t.Errorf("call %d, %v", nr, ok)
	}
	if flags, ok := Flags([]byte("pos:\t0\nflags:\t012100000\nmnt_id:\t9\n")); !ok || flags != 0o12100000 {
		t.Errorf("flags %o, %v", flags, ok)
	}
}

// TestCutOff: what is cut off or something else says nothing.
func TestCutOff(t *testing.T) {
	for _, text := range []string{"", "Name:\tsh\nUmask:\t00", "\nUmask:\t9\n", "\nTgid:\t47", "running\n", "-1 0x0", "flags:\t01"} {
		_, process := Process([]byte(text))
		_, call := Call([]byte(text))
		_, flags := Flags([]byte(text))
		if process || call || flags {
			t.Errorf("%q says something", text)
		}
	}
}
