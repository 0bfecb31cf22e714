package console

import (
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// wall is a terminal: what is on it is what was written last, up to the cursor's line.
type wall struct{ strings.Builder }

// line is what stands on the terminal's last line, and whether the cursor is at its beginning.
func (w *wall) line(t *testing.T) string {
	t.Helper()
	all := w.String()
	if all != "" && !strings.HasSuffix(all, "\r") && !strings.HasSuffix(all, erase) {
		t.Errorf("the cursor is not at the beginning: %q", all)
	}
	return strings.TrimSuffix(all[max(strings.LastIndex(all, erase)+len(erase), 0):], "\r")
}

type lab struct {
	wall *wall
	*actortest.FakeClock
	*ProgressLine
	width int
}

func newLab(what string, count func(done, total int64) string, ascii bool) *lab {
	x := &lab{wall: &wall{}, FakeClock: actortest.NewFakeClock(), width: 80}
	x.ProgressLine = NewProgress(ProgressOptions{Out: x.wall, Width: func() int { return x.width }, ASCII: ascii, Clock: x.FakeClock}, what, count)
	return x
}

func (x *lab) want(t *testing.T, line string) {
	t.Helper()
	if got := x.wall.line(t); got != line {
		t.Errorf("the line is %q, want %q", got, line)
	}
}

// What is quick is not mentioned at all.
func TestQuick(t *testing.T) {
	x := newLab("undoing", ProgressPaths, false)
	x.Report(1, 2)
	x.Advance(999 * time.Millisecond)
	x.End()
	x.Advance(time.Hour)
	if x.wall.Len() != 0 || x.Timers() != 0 {
		t.Errorf("%q, %d timers", x.wall.String(), x.Timers())
	}
}

func TestLine(t *testing.T) {
	x := newLab("undoing", ProgressPaths, false)
	x.Advance(time.Second)
	x.want(t, "undoing  1s")
	x.Report(1, 8)
	x.Advance(200 * time.Millisecond)
	x.want(t, "undoing  ██▌                   1/8 paths  1s")
	x.Report(8, 8)
	x.Advance(64 * time.Second)
	x.want(t, "undoing  ████████████████████  8/8 paths  1m5s")
	x.Report(9, 8) // never more than all
	x.Advance(time.Second)
	x.want(t, "undoing  ████████████████████  8/8 paths  1m6s")
	x.width = 30
	x.Advance(time.Second)
	x.want(t, "undoing  8/8 paths  1m7s")
	x.width = 20
	x.Advance(time.Second)
	x.want(t, "undoing  1m8s")
	x.End()
	x.want(t, "")
	written := x.wall.Len()
	x.Report(3, 4)
	x.Advance(time.Hour)
	x.End()
	if !strings.HasSuffix(x.wall.String(), erase) || x.wall.Len() != written || x.Timers() != 0 {
		t.Errorf("after its end: %q, %d timers", x.wall.String()[written:], x.Timers())
	}
}

// As long as nothing changes, nothing is written.
func TestDrawnOnlyIfItChanges(t *testing.T) {
	x := newLab("restoring", nil, true)
	x.Report(1, 2) // and nobody counts
	x.Advance(3 * time.Second)
	x.want(t, "restoring  3s")
	if n := strings.Count(x.wall.String(), erase); n != 3 {
		t.Errorf("drawn %d times in 3 s: %q", n, x.wall.String())
	}
	x.End()
}

func TestWidths(t *testing.T) {
	for width := range 100 {
		x := newLab("compressing", ProgressBytes, true)
		x.width = width
		x.Report(3<<20, 7<<20)
		x.Advance(3 * time.Second)
		line := x.wall.line(t)
		if width > 1 && len(line) >= width {
			t.Errorf("%d columns of %d: %q", len(line), width, line)
		}
		if want := "compressing  #########             3 MiB of 7 MiB  3s"; width > 60 && line != want {
			t.Errorf("width %d: %q, want %q", width, line, want)
		}
		x.End()
	}
}

func TestNoLine(t *testing.T) {
	var l *ProgressLine
	l.Report(1, 2)
	l.End()
}
