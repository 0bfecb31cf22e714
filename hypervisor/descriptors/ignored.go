package descriptors

import (
	"os/signal"
	"syscall"
)

// ignorable are the signals of which a program of Go's is told whether whoever started it has had them ignored, as nohup does with HUP.
var ignorable = [...]syscall.Signal{syscall.SIGHUP, syscall.SIGINT}

// Ignored are the numbers of those that this process was started with ignored.
func Ignored() (numbers []int) {
	for _, s := range ignorable {
		if signal.Ignored(s) {
			numbers = append(numbers, int(s))
		}
	}
	return numbers
}

// Ignorable tells whether a command can be started with the signal ignored.
func Ignorable(number int) bool {
	for _, s := range ignorable {
		if number == int(s) {
			return true
		}
	}
	return false
}
