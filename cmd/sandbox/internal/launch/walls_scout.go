package launch

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
)

// scoutProgram is argv[0] of a scout.
const scoutProgram = "sandbox-scout"

// question is what a scout is asked: which files the readers of pipes have open, or to remove a file.
type question struct {
	Pipes  []api.FileID `json:"pipes,omitempty"`
	Remove string       `json:"remove,omitempty"`
}

// answer has the files, or why one was not removed.
type answer struct {
	Files []api.FileID `json:"files,omitempty"`
	Err   string       `json:"err,omitempty"`
}

// IsScout reports whether these arguments are a scout's, whose main function is [Scout].
func IsScout(args []string) bool { return len(args) > 0 && args[0] == scoutProgram }

// Scout is a process that stays before the walls. It looks at other processes, which Landlock keeps from who is behind it, and says of pipes which files their readers have open; and it removes those files that
// its arguments name, which lie in directories of others. It does nothing else, until nobody asks any more. What it has inherited beside its standard streams it closes: others wait for the end of that. The result is
// the exit status.
func Scout(args []string, in io.Reader, out io.Writer) int {
	closeRest()
	asked, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q question
		if asked.Decode(&q) != nil || answers.Encode(q.answer(args[1:])) != nil {
			return 0
		}
	}
}

func (q question) answer(removes []string) (a answer) {
	switch {
	case q.Remove == "":
		a.Files = actors.FilesOfReaders(q.Pipes)
	case !slices.Contains(removes, q.Remove):
		a.Err = "it is none of the files that may be removed"
	default:
		if err := os.Remove(q.Remove); err != nil {
			a.Err = err.Error()
		}
	}
	return a
}

// asker asks a scout. It is safe for concurrent use.
type asker struct {
	mu      sync.Mutex
	asks    *json.Encoder
	answers *json.Decoder
}

func (a *asker) ask(q question) (got answer, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.asks.Encode(q); err != nil {
		return got, err
	}
	return got, a.answers.Decode(&got)
}

// readers is [api.Config.Readers]. Where the scout has ended, nothing is found.
func (a *asker) readers(pipes []api.FileID) []api.FileID {
	got, err := a.ask(question{Pipes: pipes})
	if err != nil {
		return nil
	}
	return got.Files
}

func (a *asker) remove(path string) error {
	got, err := a.ask(question{Remove: path})
	if err == nil && got.Err != "" {
		err = errors.New(got.Err)
	}
	return err
}
