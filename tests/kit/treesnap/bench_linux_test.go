package treesnap

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkTake reads trees of so many files of 1 KB, 20 to a directory.
func BenchmarkTake(b *testing.B) {
	for _, files := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(files, " files"), func(b *testing.B) {
			root := b.TempDir()
			for i := range files {
				dir := filepath.Join(root, fmt.Sprint(i/20))
				if i%20 == 0 {
					if err := os.Mkdir(dir, 0o755); err != nil {
						b.Fatal(err)
					}
				}
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), make([]byte, 1<<10), 0o644); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				MustTake(b, root)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*files), "us/file")
		})
	}
}
