package mcp

import (
	"io"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStreamsAgain: the next command gets the pipes of one that left nobody
// behind, and none of its output; but not pipes that the command has changed, or
// that somebody may still write to.
func TestStreamsAgain(t *testing.T) {
	var r ready
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	run := func(text string) []*stream {
		t.Helper()
		out, errs := newCapture(keptOutput), newCapture(keptOutput)
		o, e, err := r.take([]io.Writer{out}, []io.Writer{errs})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*stream{o, e} {
			if _, err := s.w.WriteString(text); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { // after the caller has given them back
			for _, c := range []*capture{out, errs} {
				if got, _, _ := c.text(); got != text {
					t.Errorf("%q, want %q", got, text)
				}
			}
		})
		return []*stream{o, e}
	}
	giveBack := func(alone bool, list []*stream) {
		t.Helper()
		if err := r.giveBack(alone, list...); err != nil {
			t.Fatal(err)
		}
	}
	first := run("one")
	giveBack(true, first)
	again := run("two")
	if !slices.Equal(again, first) {
		t.Error("other pipes")
	}
	giveBack(false, again)

	changes := map[string]func(fd uintptr) error{
		"non-blocking": func(fd uintptr) error { return unix.SetNonblock(int(fd), true) },
		"size": func(fd uintptr) error {
			_, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 4096)
			return err
		},
		"mode": func(fd uintptr) error { return unix.Fchmod(int(fd), 0) },
	}
	last := again
	for name, change := range changes {
		now := run(name)
		if slices.ContainsFunc(now, func(s *stream) bool { return slices.Contains(last, s) }) {
			t.Errorf("%s: pipes that were not to be used again", name)
		}
		for _, s := range now {
			if err := change(s.w.Fd()); err != nil {
				t.Fatal(err)
			}
		}
		giveBack(true, now)
		last = now
	}
	giveBack(true, run("the last"))
}
