//go:build linux

package files

import (
	"context"
	"os/exec"
	"strings"
	"testing"
)

// BenchmarkGrep searches the sources of Go. tests/bench compares with ripgrep.
func BenchmarkGrep(b *testing.B) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	check(b, err)
	f := open(b, strings.TrimSpace(string(root))+"/src", nil)
	for _, r := range []GrepRequest{
		{Pattern: "ErrUnexpectedEOF"},
		{Pattern: `func \(\w+ \*\w+\) Close\(`},
		{Pattern: `[a-z]+_[0-9]{3,}`},
		{Pattern: "unexpectedeof", IgnoreCase: true},
		{Pattern: "status|result|value"},
	} {
		r.Mode, r.Limit = ModeContent, MaxLimit
		name := r.Pattern
		b.Run(name, func(b *testing.B) {
			n := 0
			for range b.N {
				got, err := f.Grep(context.Background(), r)
				check(b, err)
				n = len(got.Matches)
			}
			b.ReportMetric(float64(n), "lines")
		})
	}
}
