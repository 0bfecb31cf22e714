package shim

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// starting keeps the starts of commands that ignore other signals apart: what a process ignores, those that it starts do.
var starting sync.RWMutex

// catch takes what would end this process, if it is the first one inside: the workload may send it.
func catch() {
	starting.RLock()
	defer starting.RUnlock()
	signal.Notify(make(chan os.Signal, 1), deadly...)
}

// ignoring has what is started until the returned function is called ignore these signals, and nothing else started meanwhile.
// This process catches them from then on.
func ignoring(numbers []int) (restore func()) {
	if len(numbers) == 0 {
		starting.RLock()
		return starting.RUnlock
	}
	starting.Lock()
	signals := make([]os.Signal, len(numbers))
	for i, n := range numbers {
		signals[i] = syscall.Signal(n)
	}
	signal.Ignore(signals...)
	return func() {
		defer starting.Unlock()
		signal.Notify(make(chan os.Signal, 1), signals...) // Reset would leave what was ignored so
	}
}
