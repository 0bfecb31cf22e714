package walls

import (
	"encoding/json"
	"io"
	"sync"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
)

// scoutProgram is argv[0] of a scout.
const scoutProgram = "sandbox-scout"

// question is what a scout is asked; files are its answer.
type question struct {
	Pipes []api.FileID `json:"pipes"`
}

// IsScout reports whether these arguments are a scout's, whose main function is [Scout].
func IsScout(args []string) bool { return len(args) == 1 && args[0] == scoutProgram }

// Scout is a process that stays before the walls and looks at other processes, which Landlock keeps from who is behind it. It says of pipes which files their readers have open, and nothing else, until
// nobody asks any more. What it has inherited beside its standard streams it closes: others wait for the end of that. The result is the exit status.
func Scout(in io.Reader, out io.Writer) int {
	closeRest()
	asked, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q question
		if asked.Decode(&q) != nil || answers.Encode(actors.FilesOfReaders(q.Pipes)) != nil {
			return 0
		}
	}
}

// asker asks a scout. It is safe for concurrent use.
type asker struct {
	mu      sync.Mutex
	asks    *json.Encoder
	answers *json.Decoder
}

// readers is [api.Config.Readers]. Where the scout has ended, nothing is found.
func (a *asker) readers(pipes []api.FileID) (files []api.FileID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asks.Encode(question{pipes}) != nil || a.answers.Decode(&files) != nil {
		return nil
	}
	return files
}
