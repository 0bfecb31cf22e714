package gate

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/texts"
	"github.com/codeagent/sandbox/messages/lexical"
)

// MaxQuestions is how many questions of a [Gate] wait for answers at once.
const MaxQuestions = 256

// ErrTooMany is told to [Options.Denied] if [MaxQuestions] wait already.
var ErrTooMany = errors.New("gate: too many questions wait for answers")

// Question is what a person is asked.
type Question struct {
	// Path is the file or directory of the host; Dir tells which.
	Path string
	Dir  bool
	// Callers are the first program that waits and its parents, if they could be found out.
	Callers []CallingProcess
}

// String is the question for people.
func (q Question) String() string {
	s := "read " + texts.Name(q.Path)
	if q.Dir {
		s += " and everything in it"
	}
	if len(q.Callers) > 0 {
		s += " (for " + texts.Name(q.Callers[0].Name) + ")"
	}
	return s
}

// Options make a [Gate].
type Options struct {
	// Path is the directory, absolute, clean and without symlinks.
	Path string
	// Ask has somebody decide. An error means that nobody did; the answer is no, and the next
	// lookup asks again. It returns soon after ctx ends. Several run at once.
	Ask func(ctx context.Context, q Question) (allow bool, err error)
	// Stands, if not nil, reports whether what was decided about a question still holds. If not, it is asked again. It is called for each lookup of a name that
	// was decided, several at once.
	Stands func(q Question, allow bool) bool
	// Unpromoted, if not nil, is told why a directory that was opened is served by the gate still.
	Unpromoted func(path string, why error)
	// Denied, if not nil, is told of each lookup that was denied. why is nil if somebody said no.
	Denied func(q Question, why error)
}

// Mount is what a gate is told of the place where it is mounted. Its paths are absolute and clean; those that are not below
// the gate's directory mean nothing.
type Mount struct {
	// Hidden are paths, relative to the directory, that are refused without a question.
	Hidden []string
	// Passages are directories to which the way must be open: mounts.
	Passages []string
	// Open are files and directories that nobody is asked about, nor about what is in them.
	Open []string
	// Lower: an overlay lies over the mount. For it, a name stays the object that it was: one that the host has
	// replaced would be stale for good.
	Lower bool
	// Promote, if not nil, mounts a directory that was opened over its name, and returns when that is done. dir is the directory, O_PATH, until then.
	Promote func(path string, dir int) error
	// HostPID, if not nil, translates the numbers of threads that requests carry.
	HostPID func(uint32) (uint32, error)
}

// isPassage reports whether a directory lies on the way to something.
func (m *Mount) isPassage(path string) bool {
	leads := func(p string) bool { return lexical.Within(p, path) }
	return slices.ContainsFunc(m.Passages, leads) || slices.ContainsFunc(m.Open, func(p string) bool { return lexical.Below(p, path) })
}

// isOpen reports whether nobody is asked about a path.
func (m *Mount) isOpen(path string) bool {
	return slices.ContainsFunc(m.Open, func(p string) bool { return lexical.Within(path, p) })
}

// Gate is what was decided about one directory.
type Gate struct {
	o Options

	mu      sync.Mutex
	decided map[string]bool
	asked   map[string]*asked
}

// asked is a question that waits.
type asked struct {
	done    chan struct{}
	allow   bool
	err     error
	waiting int
	cancel  context.CancelFunc
}

// New makes a gate that has nothing allowed yet.
func New(o Options) *Gate {
	return &Gate{o: o, decided: make(map[string]bool), asked: make(map[string]*asked)}
}

// Waiting is how many questions wait.
func (g *Gate) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.asked)
}

// Forget takes back what was decided about a path: the next look at it asks again, once the kernel's
// caches have ended. What is open stays open.
func (g *Gate) Forget(path string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.decided, path)
}

// allowed reports whether path may be shown in a listing.
func (g *Gate) allowed(path string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.decided[path]
}

// admit returns whether a name that is no passage may be looked up, and waits for
// that. It returns an error if ctx ends first. who, if not nil, finds out who asks: for a question only. Nobody is asked for us, nor do we wait.
func (g *Gate) admit(ctx context.Context, q Question, who func() []CallingProcess, ours bool) (bool, error) {
	g.mu.Lock()
	allow, ok := g.decided[q.Path]
	g.mu.Unlock()
	if ok && (g.o.Stands == nil || g.o.Stands(q, allow)) {
		return g.tell(q, allow, nil), nil
	}
	g.mu.Lock()
	if now, again := g.decided[q.Path]; ok && again && now == allow {
		delete(g.decided, q.Path)
	}
	if ours {
		g.mu.Unlock()
		return false, nil
	}
	a := g.asked[q.Path]
	if a == nil {
		if len(g.asked) >= MaxQuestions {
			g.mu.Unlock()
			return g.tell(q, false, ErrTooMany), nil
		}
		a = g.ask(q, who)
	}
	a.waiting++
	g.mu.Unlock()
	select {
	case <-a.done:
		return g.tell(q, a.allow, a.err), nil
	case <-ctx.Done():
		g.leave(q.Path, a)
		return false, ctx.Err()
	}
}

// leave withdraws a question that nobody waits for.
func (g *Gate) leave(path string, a *asked) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.waiting--; a.waiting == 0 {
		a.cancel()
		if g.asked[path] == a {
			delete(g.asked, path)
		}
	}
}

// ask begins a question. The caller has the lock.
func (g *Gate) ask(q Question, who func() []CallingProcess) *asked {
	ctx, cancel := context.WithCancel(context.Background())
	a := &asked{done: make(chan struct{}), cancel: cancel}
	g.asked[q.Path] = a
	go func() {
		defer cancel()
		if who != nil {
			q.Callers = who()
		}
		allow, err := g.o.Ask(ctx, q)
		g.mu.Lock()
		defer g.mu.Unlock()
		a.allow, a.err = allow && err == nil, err
		if g.asked[q.Path] == a { // else it was withdrawn
			delete(g.asked, q.Path)
			if err == nil {
				g.decided[q.Path] = allow
			}
		}
		close(a.done)
	}()
	return a
}

func (g *Gate) tell(q Question, allow bool, err error) bool {
	if !allow && g.o.Denied != nil {
		g.o.Denied(q, err)
	}
	return allow
}

// child is the path of a name.
func child(dir, name string) string { return filepath.Join(dir, name) }
