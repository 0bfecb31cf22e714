package actortest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main is a package's TestMain: it runs the tests, and fails if goroutines are left
// after them. Those that are about to end have five minutes: the half second that goleak
// gives them is not enough on a busy machine.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		// On Windows one goroutine takes what happens at all named pipes, for good.
		pipes := goleak.IgnoreAnyFunction("github.com/Microsoft/go-winio.ioCompletionProcessor")
		err := goleak.Find(pipes)
		for end := time.Now().Add(patience); err != nil && time.Now().Before(end); {
			err = goleak.Find(pipes) // it waits, too
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left:", err)
			code = 1
		}
	}
	os.Exit(code)
}
