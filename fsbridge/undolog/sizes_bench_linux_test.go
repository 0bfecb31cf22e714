package undolog

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
)

// These are the throughputs by size of the log's parts: each beside a copy of as many bytes. Nothing here fails for being slow.
//
//	go test -run '^$' -bench 'Capture|Restore|Compress$|Promotion' ./fsbridge/undolog

// eachSize runs f with a file "f" of each size, in a log without limits.
func eachSize(b *testing.B, f func(b *testing.B, e *session)) {
	for _, s := range []struct {
		name string
		size int
	}{{"4KB", 4 << 10}, {"1MB", 1 << 20}, {"100MB", 100 << 20}} {
		b.Run(s.name, func(b *testing.B) {
			text := make([]byte, s.size) // half of it can be compressed away
			noise := rand.NewChaCha8([32]byte{})
			for i := 0; i < len(text); i += 64 {
				_, _ = noise.Read(text[i:min(i+32, len(text))])
			}
			e := newSession(b, func(work string) {
				if err := os.WriteFile(filepath.Join(work, "f"), text, 0o644); err != nil {
					b.Fatal(err)
				}
			}, func(o *Options) {
				o.Limits = Limits{StepBytes: -1, LogBytes: -1, AdoptedRaw: -1, StepCount: 2}
			})
			b.SetBytes(int64(s.size))
			f(b, e)
		})
	}
}

// cutAll is the first change of the file in a step: all that it holds is captured.
func cutAll(a *undologtest.Applier) error { return a.Truncate("f", 0) }

// BenchmarkCapture keeps a file before it is cut.
func BenchmarkCapture(b *testing.B) {
	eachSize(b, func(b *testing.B, e *session) {
		for b.Loop() {
			e.begin()
			e.must(cutAll(e.a))
			b.StopTimer()
			e.commit()
			e.undoN(1)
			b.StartTimer()
		}
	})
}

// BenchmarkCopy is what there is to compare them with.
func BenchmarkCopy(b *testing.B) {
	eachSize(b, func(b *testing.B, e *session) {
		for b.Loop() {
			in, err := os.Open(filepath.Join(e.work, "f"))
			e.must(err)
			out, err := os.Create(filepath.Join(e.undo, "copy"))
			e.must(err)
			_, err = io.Copy(struct{ io.Writer }{out}, in) // no reflink
			e.must(err)
			e.must(out.Close())
			e.must(in.Close())
		}
	})
}

// BenchmarkRestore puts a file back that was cut.
func BenchmarkRestore(b *testing.B) {
	eachSize(b, func(b *testing.B, e *session) {
		for b.Loop() {
			b.StopTimer()
			e.step(cutAll)
			b.StartTimer()
			e.undoN(1)
		}
	})
}

// BenchmarkCompress compresses a file that was removed.
func BenchmarkCompress(b *testing.B) {
	eachSize(b, func(b *testing.B, e *session) {
		for b.Loop() {
			b.StopTimer()
			e.step(func(a *undologtest.Applier) error { return a.Unlink("f") })
			b.StartTimer()
			_, err := e.log.GC(context.Background(), GCOptions{CompressAll: true})
			e.must(err)
			b.StopTimer()
			e.undoN(1)
			b.StartTimer()
		}
	})
}

// BenchmarkPromotion closes a step that has changed so many paths: its summary is written, and its directory becomes one of the history's.
func BenchmarkPromotion(b *testing.B) {
	for _, paths := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(paths, " paths"), func(b *testing.B) {
			e := newSession(b, nil, func(o *Options) { o.StepCount = 2 })
			for b.Loop() {
				b.StopTimer()
				e.begin()
				for i := range paths {
					e.must(e.a.Create(fmt.Sprint("f", i), 0o644))
				}
				b.StartTimer()
				e.commit()
				b.StopTimer()
				e.undoN(1)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*paths), "us/path")
		})
	}
}
