//go:build linux

package mediate

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// benchWork does one kind of operation as often as it is told, and says how many
// nanoseconds that took.
func benchWork(w *workload) {
	for {
		n, err := strconv.Atoi(w.hear())
		if err != nil {
			return
		}
		put("f", "content")
		_ = os.MkdirAll("x", 0o755)
		before, do := benchOperation(w.args[0])
		for i := range n {
			before(i)
		}
		start := time.Now()
		for i := range n {
			if err := do(i); err != nil {
				w.say("%v", err)
				return
			}
		}
		w.say("%d", time.Since(start).Nanoseconds())
		_ = os.RemoveAll("x")
	}
}

func name(i int) string { return "x/" + strconv.Itoa(i) }

func benchOperation(op string) (before func(i int), do func(i int) error) {
	before = func(int) {}
	open := func(path string, flags int) error {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
	switch op {
	case "read":
		return before, func(int) error { return open("f", unix.O_RDONLY) }
	case "stat":
		return before, func(int) error { var st unix.Stat_t; return unix.Stat("f", &st) }
	case "append":
		return before, func(int) error {
			fd, err := unix.Open("f", unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
			if err != nil {
				return err
			}
			_, err = unix.Write(fd, []byte("a line"))
			return errors.Join(err, unix.Close(fd))
		}
	case "continue":
		return before, func(int) error { unix.Umask(0o022); return nil }
	case "outside":
		return before, func(int) error { return open("/dev/null", unix.O_WRONLY) }
	case "write":
		return before, func(int) error { return open("f", unix.O_WRONLY) }
	case "create":
		return before, func(i int) error { return open(name(i), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL) }
	case "unlink":
		return func(i int) { put(name(i), "") }, func(i int) error { return unix.Unlink(name(i)) }
	case "mkdir":
		return before, func(i int) error { return unix.Mkdir(name(i), 0o755) }
	case "rename":
		return func(i int) { put(name(i), "") }, func(i int) error { return unix.Rename(name(i), name(i)+"r") }
	case "chmod":
		return before, func(i int) error { return unix.Chmod("f", 0o600+uint32(i%2)) }
	case "futimens":
		fd, err := unix.Open("f", unix.O_WRONLY, 0)
		return before, func(i int) error {
			if err != nil {
				return err
			}
			_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, 0, 0, 0, 0)
			if errno != 0 {
				return errno
			}
			return nil
		}
	}
	return before, func(int) error { return fmt.Errorf("no operation %s", op) }
}

// Benchmark measures each operation natively and mediated, without an undo log.
func Benchmark(b *testing.B) {
	for _, op := range []string{"read", "continue", "outside", "write", "create", "unlink", "mkdir", "rename", "chmod", "futimens"} {
		b.Run(op+"/native", func(b *testing.B) { bench(b, newJail(b).native("bench", op)) })
		b.Run(op+"/mediated", func(b *testing.B) { bench(b, newJail(b).start("bench", op)) })
	}
}

func bench(b *testing.B, in *inside) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	in.say(strconv.Itoa(b.N))
	nanos, err := strconv.Atoi(in.hear())
	if err != nil {
		b.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(b.N), "allocs/op") // ours: the workload is another process
	b.ReportMetric(float64(nanos)/float64(b.N)/1000, "us/op")
	b.ReportMetric(0, "ns/op")
	in.say("end")
	in.ok()
}
