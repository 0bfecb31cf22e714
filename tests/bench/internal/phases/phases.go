package phases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"
)

// Phase is a part of a start.
type Phase struct {
	Name string
	Took []time.Duration // in each run
}

// ends are the messages with which the phases end, in their order; the last one ends with the program.
var ends = []struct{ message, name string }{
	{"actor system started", "the program's start, configuration"},
	{"session state", "logs, actors, control socket"},
	{"backend started", "the jail's namespaces, mounts and view"},
	{"runtime started", "the bridge, the first process"},
	{"step completed", "the command and its step"},
	{"runtime stopped", "the jail's end"},
	{"", "logs closed, the program's end"},
}

// Measure runs a command so many times. Its standard error is the program's log, as JSON, with its debug lines.
func Measure(times int, command func() *exec.Cmd) ([]Phase, error) {
	list := make([]Phase, len(ends))
	for i, e := range ends {
		list[i].Name = e.name
	}
	for range times {
		cmd := command()
		var log bytes.Buffer
		cmd.Stderr = &log
		last, phase := time.Now(), 0
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, log.Bytes())
		}
		end := time.Now()
		for line := range bytes.Lines(log.Bytes()) {
			var e struct {
				At      time.Time `json:"timestamp"`
				Message string    `json:"message"`
			}
			if json.Unmarshal(line, &e) == nil && e.Message == ends[phase].message {
				list[phase].Took = append(list[phase].Took, e.At.Sub(last))
				last, phase = e.At, phase+1
			}
		}
		if phase != len(ends)-1 {
			return nil, fmt.Errorf("the log of a start has no line %q", ends[phase].message)
		}
		list[phase].Took = append(list[phase].Took, end.Sub(last))
	}
	return list, nil
}
