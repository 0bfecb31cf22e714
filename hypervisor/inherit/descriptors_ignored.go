package inherit

import (
	"os/signal"
	"syscall"
)

// ignorable are the signals of which a program of Go's is told whether whoever started it has had them ignored, as nohup does with HUP.
var ignorable = [...]syscall.Signal{syscall.SIGHUP, syscall.SIGINT}

// IgnoredSignal are the numbers of those that this process was started with ignored.
func IgnoredSignal() (numbers []int) {
	for _, s := range ignorable {
		if signal.Ignored(s) {
			numbers = append(numbers, int(s))
		}
	}
	return numbers
}

// IgnorableSignal tells whether a command can be started with the signal ignored.
func IgnorableSignal(number int) bool {
	for _, s := range ignorable {
		if number == int(s) {
			return true
		}
	}
	return false
}
