package jail

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestD13Find: what is no device of the host's, or would be more than a device, is refused with a reason.
func TestD13Find(t *testing.T) {
	anybody := func(string, *unix.Stat_t) bool { return true }
	for name, want := range map[string]string{
		"relative/path": "not absolute", "/dev": "name a device below /dev", "/etc": "name a device below /dev", "/dev/../etc": "name a device below /dev", "/dev/null": "of its own",
		"tty": "of its own", "/dev/pts": "of its own", "/dev/not-there": "no such file", "not-there": "no such file", "/dev/fd": "name a device below /dev",
	} {
		got, err := findDevice([]string{name}, anybody)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "--device "+name+": ") {
			t.Errorf("%s: %v, %v, want %q", name, got, err, want)
		}
	}
}

// TestD13Judge: what reaches past the jail has to be named twice, and terminals are not given.
func TestD13Judge(t *testing.T) {
	for _, c := range []struct {
		what         string
		kind         uint32
		major, minor uint32
		once, twice  string // why not; empty: it is given
	}{
		{"a disk", unix.S_IFBLK, 8, 0, "reaches a disk", ""},
		{"memory", unix.S_IFCHR, 1, 1, "reaches the machine's memory", ""},
		{"a console", unix.S_IFCHR, 4, 1, "reaches a console", ""},
		{"a serial line", unix.S_IFCHR, 4, 64, "", ""},
		{"the controlling terminal", unix.S_IFCHR, 5, 0, "is a terminal", "is a terminal"},
		{"another terminal", unix.S_IFCHR, 136, 3, "is a terminal", "is a terminal"},
	} {
		st := &unix.Stat_t{Mode: c.kind | 0o660, Rdev: unix.Mkdev(c.major, c.minor)}
		for twice, want := range map[bool]string{false: c.once, true: c.twice} {
			_, err := judge("/dev/x", st, twice, func(string, *unix.Stat_t) bool { return true })
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s, twice %v: %v, want %q", c.what, twice, err, want)
			}
			if _, err := judge("/dev/x", st, twice, func(string, *unix.Stat_t) bool { return false }); err == nil {
				t.Errorf("%s, twice %v: it is given to who may not use it", c.what, twice)
			}
		}
	}
}
