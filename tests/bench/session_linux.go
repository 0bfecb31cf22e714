package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor/none"
)

// live is a folder in a session of this process: bridge, Interceptor and log.
// Unless its runtime is a jail, its commands run outside of one, so that only those
// are measured.
type live struct {
	label    string
	session  *actors.Session
	dir      string // of the working folder
	undo     string
	messages string
	environ  []string
}

// newLive starts a session in a folder that fill fills. Nothing is evicted or
// compressed by itself.
func newLive(ctx context.Context, l *lab, name string, fill func(dir string) error) (*live, error) {
	return startLive(ctx, l, name, fill, func(c *api.Config) {
		c.Runtime = none.New(none.Options{Dir: filepath.Join(l.scratch, name+".mounts"), Umask: 0o022})
	})
}

// startLive is newLive with another runtime, which configure sets.
func startLive(ctx context.Context, l *lab, name string, fill func(dir string) error, configure func(*api.Config)) (*live, error) {
	hostfs.ClearUmask()
	s := &live{
		label: name, dir: filepath.Join(l.dir, name+".d"), undo: filepath.Join(l.dir, name+".undo"),
		messages: filepath.Join(l.scratch, name+".err"), environ: environ(),
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	if err := fill(s.dir); err != nil {
		return nil, err
	}
	c := api.Config{
		Directories: []api.Directory{{Path: s.dir, UndoDir: s.undo}},
		Undo:        api.Undo{Settings: undolog.Settings{Limits: undolog.Limits{LogBytes: -1, StepCount: -1, StepBytes: -1, AdoptedRaw: 1 << 40}}},
	}
	configure(&c)
	session, err := actors.Start(ctx, c)
	s.session = session
	return s, err
}

// newIntercepted is the bridge with interception, a step for each workload.
func newIntercepted(ctx context.Context, l *lab) (side, error) {
	return newLive(ctx, l, "intercepted", func(dir string) error { return command(ctx, dir, "tar", "-xf", l.archive) })
}

func (s *live) name() string        { return s.label }
func (s *live) takes(workload) bool { return true }

func (s *live) run(ctx context.Context, script string) (time.Duration, error) {
	unix.Sync()
	return s.measured(ctx, script)
}

// measured is run without what is to be written to this machine's disks being written first.
func (s *live) measured(ctx context.Context, script string) (time.Duration, error) {
	messages, err := os.Create(s.messages)
	if err != nil {
		return 0, err
	}
	defer messages.Close()
	r, err := s.session.Run(ctx, api.RunRequest{
		Argv: []string{"sh", "-ec", script}, Env: s.environ, Dir: s.dir, Stdout: messages, Stderr: messages,
	})
	if err == nil && (r.Status.Code != 0 || r.Outcome != "completed") {
		b, _ := os.ReadFile(s.messages)
		err = fmt.Errorf("%s: exit status %d, %s: %s %s", script, r.Status.Code, r.Outcome, r.Reason, bytes.TrimSpace(b))
	}
	return r.Status.Duration, err
}

func (s *live) cpu() time.Duration { return cpuOf(-1) }

func (s *live) rest(context.Context) error { return nil }

func (s *live) undoOne(ctx context.Context) (time.Duration, error) {
	unix.Sync()
	start := time.Now()
	_, err := s.session.Undo(ctx, api.UndoRequest{Count: 1})
	return time.Since(start), err
}

func (s *live) Close() error {
	if s.session == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.session.Close(ctx)
}

// kept returns the bytes that the undo directory takes, as du counts them.
func (s *live) kept() (int64, error) {
	var total int64
	err := filepath.WalkDir(s.undo, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return nil // the background tidies up
			}
			return err
		}
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil {
			total += st.Blocks * 512
		}
		return nil
	})
	return total, err
}

// settled waits until the background has emptied the log's trash, so that it
// does not work during the next measurement.
func (s *live) settled(ctx context.Context) error {
	for ctx.Err() == nil {
		entries, err := os.ReadDir(filepath.Join(s.undo, "trash"))
		if err != nil || len(entries) == 0 {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ctx.Err()
}

// lastLine is what a program said at its end.
func lastLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}
