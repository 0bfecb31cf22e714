package directory

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/supervision"
)

// linger is how long what a command wrote to its output may still be heard of after its end.
const linger = 2 * time.Second

// rescan is how long is believed who reads the pipes of commands.
const rescan = time.Second

// Outputs are the files outside of the bridges that the output of a session's commands goes to: those that the caller has opened
// for writing and gives to the command, as any of its descriptors ('make >build.log', 'exec 9>log'), and those that whoever reads the
// pipe which is its stdout or stderr writes ('| tee build.log'). That they change is no edit from outside. It is safe for concurrent use.
type Outputs struct {
	clock   supervision.Clock
	readers func(pipes []api.FileID) (files []api.FileID)

	mu    sync.Mutex
	given map[*given]struct{}
	read  []api.FileID // files of readers of pipes
	at    time.Time    // when these were looked up
}

// given is one file that a command was given.
type given struct {
	info os.FileInfo
	pipe bool
}

// NewOutputs makes an empty set. readers finds what [FilesOfReaders] does; nil is that.
func NewOutputs(c supervision.Clock, readers func([]api.FileID) []api.FileID) *Outputs {
	if readers == nil {
		readers = FilesOfReaders
	}
	return &Outputs{clock: c, readers: readers, given: map[*given]struct{}{}}
}

// Add takes in what a command can write to without a bridge. The files stay owned by the caller, and may be closed after that. Done is called
// when the command has ended.
func (o *Outputs) Add(r api.RunRequest) (done func()) {
	var list []*given
	add := func(f *os.File, pipes bool) {
		if f == nil || !writable(f) {
			return
		}
		info, err := f.Stat()
		if err != nil {
			return
		}
		pipe := pipes && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
		if pipe || info.Mode().IsRegular() {
			list = append(list, &given{info, pipe})
		}
	}
	add(r.Stdout, true)
	add(r.Stderr, true)
	add(r.Stdin, false)
	for _, f := range hypervisor.Files(r.Further) {
		add(f, false) // many have the pipe of make's job server, whose files are not the command's output
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, g := range list {
		o.given[g] = struct{}{}
	}
	return func() {
		o.clock.AfterFunc(linger, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			for _, g := range list {
				delete(o.given, g)
			}
		})
	}
}

// Others returns the paths, relative to a folder, that are none of these files.
func (o *Outputs) Others(folder string, paths []string) (others []string) {
	if o == nil {
		return paths
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.given) == 0 {
		return paths
	}
	for _, p := range paths {
		info, err := os.Lstat(filepath.Join(folder, p))
		if err != nil || !info.Mode().IsRegular() || !o.has(info) {
			others = append(others, p)
		}
	}
	return others
}

// has needs mu.
func (o *Outputs) has(info os.FileInfo) bool {
	var pipes []api.FileID
	for g := range o.given {
		switch {
		case os.SameFile(g.info, info):
			return true
		case g.pipe:
			pipes = append(pipes, fileID(g.info))
		}
	}
	if len(pipes) == 0 {
		return false
	}
	if now := o.clock.Now(); now.Sub(o.at) >= rescan {
		o.read, o.at = o.readers(pipes), now
	}
	return slices.Contains(o.read, fileID(info))
}
