package main

import (
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestW10Limits: of what the kernel compares with all that a user has, also outside, a session gets three quarters.
func TestW10Limits(t *testing.T) {
	for _, isolation := range []string{"jail", "landlock"} {
		if isolation == "landlock" && newDesk(t).sandbox("run", "--isolation", isolation, "--", "true").Run() != nil {
			continue // not on this machine
		}
		for line, resource := range map[string]int{"Max pending signals": unix.RLIMIT_SIGPENDING, "Max msgqueue size": unix.RLIMIT_MSGQUEUE} {
			var outside unix.Rlimit
			if err := unix.Getrlimit(resource, &outside); err != nil {
				t.Fatal(err)
			}
			want := outside.Max - outside.Max/4
			if outside.Max == unix.RLIM_INFINITY {
				continue
			}
			d := newDesk(t)
			out := d.must("run", "--isolation", isolation, "--", "grep", line, "/proc/self/limits")
			f := strings.Fields(strings.TrimPrefix(out, line))
			if len(f) < 2 || f[1] != strconv.FormatUint(want, 10) {
				t.Errorf("%s, %s: %q, want %d", isolation, line, out, want)
			}
		}
	}
}
