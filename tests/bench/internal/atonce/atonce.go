package atonce

import (
	"errors"
	"os/exec"
	"time"
)

// Commands is how many run at once.
const Commands = 50

// Work is a command that works for some 70 ms.
var Work = []string{"/bin/sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"}

// Compare runs the commands of both sides, one side after the other in each round, and
// returns how long all of a side's took together.
func Compare(rounds int, ours, theirs func() *exec.Cmd) (us, them []time.Duration, err error) {
	for range rounds {
		a, aerr := together(ours)
		b, berr := together(theirs)
		if err := errors.Join(aerr, berr); err != nil {
			return nil, nil, err
		}
		us, them = append(us, a), append(them, b)
	}
	return us, them, nil
}

func together(command func() *exec.Cmd) (time.Duration, error) {
	start := time.Now()
	ended := make(chan error, Commands)
	for range Commands {
		go func() { ended <- command().Run() }()
	}
	var err error
	for range Commands {
		err = errors.Join(err, <-ended)
	}
	return time.Since(start), err
}
