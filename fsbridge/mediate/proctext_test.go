package mediate

import "testing"

func TestTexts(t *testing.T) {
	const status = "Name:\tsh\nUmask:\t0027\nState:\tS (sleeping)\nTgid:\t4711\nNgid:\t0\n"
	if pid, ok := procProcess([]byte(status)); !ok || pid != 4711 {
		t.Errorf("process %d, %v", pid, ok)
	}
	if nr, ok := procCall([]byte("61 0x1 0x2")); !ok || nr != 61 {
		t.Errorf("call %d, %v", nr, ok)
	}
	if flags, ok := procFlags([]byte("pos:\t0\nflags:\t012100000\nmnt_id:\t9\n")); !ok || flags != 0o12100000 {
		t.Errorf("flags %o, %v", flags, ok)
	}
}

func TestPending(t *testing.T) {
	status := func(threads, thread, process, blocked string) []byte {
		return []byte("Name:\tsh\nThreads:\t" + threads + "\nSigQ:\t0/1\nSigPnd:\t" + thread + "\nShdPnd:\t" + process + "\nSigBlk:\t" + blocked + "\nSigIgn:\t0\n")
	}
	for _, c := range []struct {
		threads, thread, process, blocked string
		other, first                      bool
	}{
		{"1", "0000000000000000", "0000000000000000", "0000000000000000", false, false},
		{"2", "0000000000000002", "0000000000000000", "0000000000000000", true, true},
		{"2", "0000000000000002", "0000000000000000", "0000000000000002", false, false},
		{"2", "0000000000000000", "0000000000000002", "0000000000000000", false, true},
		{"1", "0000000000000000", "0000000000000006", "0000000000000002", true, true},
	} {
		s, ok := procPending(status(c.threads, c.thread, c.process, c.blocked))
		if !ok || s.Interrupt(false) != c.other || s.Interrupt(true) != c.first {
			t.Errorf("%+v: %+v, %v", c, s, ok)
		}
	}
	for _, text := range []string{"", "\nThreads:\t1\nSigPnd:\t0\nShdPnd:\t0\nSigBlk:\t0", "\nThreads:\tx\nSigPnd:\t0\nShdPnd:\t0\nSigBlk:\t0\n"} {
		if _, ok := procPending([]byte(text)); ok {
			t.Errorf("%q says something", text)
		}
	}
}

// TestCutOff: what is cut off or something else says nothing.
func TestCutOff(t *testing.T) {
	for _, text := range []string{"", "Name:\tsh\nUmask:\t00", "\nUmask:\t9\n", "\nTgid:\t47", "running\n", "-1 0x0", "flags:\t01"} {
		_, process := procProcess([]byte(text))
		_, call := procCall([]byte(text))
		_, flags := procFlags([]byte(text))
		if process || call || flags {
			t.Errorf("%q says something", text)
		}
	}
}
