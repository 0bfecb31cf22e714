package undolog

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// bigTree makes about files files in directories of nine, 1.8 KB each.
func bigTree(w *world, files int) {
	for d := 0; d*9 < files; d++ {
		dir := fmt.Sprintf("%s/work/tree/%d/%d", w.base, d/30, d)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			w.t.Fatalf("%v", err)
		}
		for f := range 9 {
			if err := os.WriteFile(fmt.Sprintf("%s/%d.go", dir, f), []byte(strings.Repeat("some text\n", 180)), 0o644); err != nil {
				w.t.Fatalf("%v", err)
			}
		}
	}
}

// BenchmarkUndoRemoveTree undoes the removal of 11,478 files: from adopted
// blobs, and from the pack.
func BenchmarkUndoRemoveTree(b *testing.B) {
	for _, packed := range []bool{false, true} {
		b.Run(map[bool]string{false: "adopted", true: "packed"}[packed], func(b *testing.B) {
			w := newWorld(b, benchDir(b), Options{Settings: Settings{Limits: Limits{StepBytes: -1}}})
			defer w.close()
			const files = 11478
			bigTree(w, files)
			for b.Loop() {
				b.StopTimer()
				w.step(func() { w.ok(rmtree(w, "tree")) })
				if packed {
					if _, err := w.log.GC(context.Background(), GCOptions{CompressAll: true}); err != nil {
						b.Fatal(err)
					}
				}
				w.log.quiet()
				b.StartTimer()
				start := time.Now()
				w.undo(1)
				b.ReportMetric(float64(time.Since(start).Microseconds())/files, "us/file")
			}
		})
	}
}

// benchDir is on a real disk's file system, if BENCH_DIR does not say another.
func benchDir(b *testing.B) string {
	if d := os.Getenv("BENCH_DIR"); d != "" {
		dir, err := os.MkdirTemp(d, "undo")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { removeForTest(dir) })
		return dir
	}
	return b.TempDir()
}
