package shim

import (
	"encoding/json"

	"github.com/codeagent/sandbox/guest/control"
)

// limitedArgs are the arguments of this program that has it limit itself and become the program at path. A process is limited by itself, before it is
// what it becomes: our own limits would be those of everything that is started meanwhile, and a hard one could not be taken back.
func limitedArgs(l *control.Limits, path string, argv []string) ([]string, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	return append([]string{control.GuestProgram, control.StageLimits, string(text), path}, argv...), nil
}
