//go:build amd64 || arm64

package nofile

// limit is a struct rlimit.
type limit struct{ soft, hard uint64 }

// started is read before anything changes it, and never written.
var started = read()

func read() (l limit) {
	getrlimit(&l) // cannot fail
	return l
}

// getrlimit asks for RLIMIT_NOFILE.
//
//go:noescape
func getrlimit(l *limit)

// Started returns the soft and the hard limit.
func Started() (soft, hard uint64) { return started.soft, started.hard }
