package launch

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/guest/nofile"
)

// Walls are what this process has put around itself for its sessions. Nothing takes them off again. The zero value is a process that has served none. It is safe for concurrent use.
type Walls struct {
	// Alone says that this process serves one session, and nothing else: it is kept from the files that this one does not need.
	Alone bool
	// Removes names the files that [Walls.Remove] may be asked to remove. It is set before [Walls.Start].
	Removes []string
	// Reads names files that this process reads again later: what lies in their directories stays readable. It is set before [Walls.Start].
	Reads []string

	mu    sync.RWMutex // held by a start for which a wall may be put up, and for reading by others
	calls filtered
	files confined
}

// Wanted tells whether a process that serves such a session, and nothing else, is kept from the files that the session does not need.
func Wanted(cfg api.Config) bool { return confines(cfg) }

// leastFiles is how many files this program must be able to have open for a session. With less, records of what a step changes could not be written.
const leastFiles = 64

// enoughFiles returns an error if whoever has started this program lets it have too few files open.
func enoughFiles() error {
	if _, hard := nofile.Started(); hard != 0 && hard < leastFiles {
		return fmt.Errorf("the limit of open files is %d here (ulimit -n), and a session needs %d: raise it, or start the session without it ('sandbox start') and keep it for the command, which joins", hard, leastFiles)
	}
	return nil
}

// Start starts a session, and puts around this process what its guest makes necessary. What an earlier session has put there may be in the way of this one: then the error says so, and wraps
// [hypervisor.ErrUnavailable]. Sessions start at the same time, but for those that need a wall which is not there yet: it goes up before the session, or behind it, and no other one is in the middle of its start then.
func (w *Walls) Start(ctx context.Context, cfg api.Config, log *slog.Logger) (*actors.Session, error) {
	if err := enoughFiles(); err != nil {
		return nil, err
	}
	if s, done, err := w.startBehind(ctx, cfg); done {
		return s, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.calls.lets(cfg); err != nil {
		return nil, err
	}
	if w.Alone {
		w.files.before(&cfg, w.Removes, log)
	}
	w.calls.load(cfg, false, log)
	s, err := actors.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	w.calls.load(cfg, true, log)
	if w.Alone {
		w.files.up(ctx, s, cfg, w.Reads, log)
	}
	return s, nil
}

// startBehind starts a session for which all walls are up; done is false if they are not.
func (w *Walls) startBehind(ctx context.Context, cfg api.Config) (s *actors.Session, done bool, err error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.Alone || !w.calls.settled(cfg) {
		return nil, false, nil
	}
	if err := w.calls.lets(cfg); err != nil {
		return nil, true, err
	}
	s, err = actors.Start(ctx, cfg)
	return s, true, err
}

// sessionFiles are what a session's supervisor still opens, with all that is below: a path may be empty, or not there.
type sessionFiles struct{ read, write []string }

// filesOf returns the files of a session that runs.
func filesOf(ctx context.Context, s *actors.Session, cfg api.Config) (f sessionFiles, err error) {
	st, err := s.Status(ctx)
	if err != nil {
		return f, err
	}
	for _, d := range st.Directories {
		if d.Access == "read_only" {
			f.read = append(f.read, d.Path)
		} else {
			f.write = append(f.write, d.Path)
		}
		f.write = append(f.write, d.UndoDir)
		f.read = append(f.read, approval.GitFiles(d.Path)...)
	}
	f.write = append(f.write, cfg.RuntimeDir)
	if dir, err := actors.StateDir(); err == nil {
		f.write = append(f.write, dir)
	}
	if dir, err := os.UserConfigDir(); err == nil { // answers are kept there as rules; the directory is made by the first
		dir = filepath.Join(dir, "codeagent")
		_ = os.MkdirAll(dir, 0o700) // an answer that cannot be kept is told
		f.write = append(f.write, dir)
	}
	f.read = append(append(f.read, cfg.ConfigFiles...), cfg.MachineFiles...)
	if exe, err := os.Executable(); err == nil {
		f.read = append(f.read, exe)
	}
	return f, nil
}

// Remove removes a file, also if the walls keep this process from its directory; then it is one of Removes. It is safe for concurrent use once Start has returned.
func (w *Walls) Remove(path string) error {
	if w.files.scout != nil {
		return w.files.scout.remove(path)
	}
	return os.Remove(path)
}
