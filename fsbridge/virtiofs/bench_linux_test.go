package virtiofs

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkRequest is what a request costs, the driver's half included, of a guest
// that waits for each reply: a LOOKUP, and a READ as read-ahead makes them. The
// processor time says more than the clock.
func BenchmarkRequest(b *testing.B) {
	const readBytes = 64 << 10
	l := newLab(b, nil)
	check1(b, os.WriteFile(l.path("a"), make([]byte, readBytes), 0o644))
	f := l.connect()
	node, err := f.lookup(root, "a")
	check1(b, err)
	fh, err := f.open(node, unix.O_RDONLY)
	check1(b, err)
	for name, request := range map[string]func() error{
		"lookup": func() error { _, err := f.lookup(root, "a"); return err },
		"read":   func() error { _, err := f.read(node, fh, 0, readBytes); return err },
	} {
		b.Run(name, func(b *testing.B) {
			before := cpuTime(b)
			for b.Loop() {
				check1(b, request())
			}
			b.ReportMetric(float64(cpuTime(b)-before)/1e3/float64(b.N), "cpu-µs/op")
		})
	}
}

// cpuTime returns this process's processor time in nanoseconds.
func cpuTime(b *testing.B) int64 {
	var t unix.Timespec
	check1(b, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t))
	return t.Nano()
}
