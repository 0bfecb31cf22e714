//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(stderr)
	minutes := flags.Float64("minutes", 30, "how long")
	program := flags.String("program", "bin/sandbox", "the program")
	bridge := flags.String("bridge", "auto", "as for sandbox run")
	seed := flags.Uint64("seed", uint64(time.Now().UnixNano()), "of what is drawn")
	if flags.Parse(args) != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := begin(ctx, *program, *bridge, *seed)
	if err == nil {
		fmt.Fprintf(stdout, "soak of %.4g minutes in %s, bridge %s, -seed %d\n", *minutes, s.dir, *bridge, *seed)
		for end := time.Now().Add(time.Duration(*minutes * float64(time.Minute))); err == nil && ctx.Err() == nil && time.Now().Before(end); {
			err = s.round(ctx)
		}
		if err == nil {
			err = s.back(context.WithoutCancel(ctx))
		}
		fmt.Fprintf(stdout, "%d rounds, %d commands, %d steps undone, %d done again, %d trees compared; session %s\n",
			s.rounds, s.commands, s.undone, s.redone, s.compared, s.memory())
		err = errors.Join(err, s.end(err == nil))
	}
	if err != nil {
		fmt.Fprintln(stderr, "soak:", err)
		return 1
	}
	return 0
}

// soak is a folder with a session.
type soak struct {
	program, base, dir string
	pid                int
	r                  *rand.Rand
	first              *treesnap.Snapshot

	rounds, commands, undone, redone, compared int
}

// files is how many the project has, and most how many steps there may be before all are undone.
const (
	files = 150
	most  = 40
)

const makefile = `OUT ?= b
OBJ := $(patsubst src/%.c,$(OUT)/%.o,$(wildcard src/*.c))
$(OUT)/all: $(OBJ)
	ld -r -o $@ $^
$(OUT)/%.o: src/%.c
	@mkdir -p $(OUT)
	gcc -c -o $@ $<
`

// begin makes the project and starts the session.
func begin(ctx context.Context, program, bridge string, seed uint64) (s *soak, err error) {
	s = &soak{r: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // no secret
	if s.program, err = filepath.Abs(program); err != nil {
		return nil, err
	}
	if s.base, err = os.MkdirTemp("/var/tmp", "sandbox-soak-"); err != nil {
		return nil, err
	}
	s.dir = filepath.Join(s.base, "work")
	if err := os.MkdirAll(filepath.Join(s.dir, "src"), 0o755); err != nil {
		return nil, err
	}
	for i := range files {
		text := fmt.Sprintf("int f%d(int x) { return x + %d; }\n%s", i, i, strings.Repeat("/* text */\n", i))
		if err := os.WriteFile(filepath.Join(s.dir, "src", fmt.Sprintf("f%d.c", i)), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, "Makefile"), []byte(makefile), 0o644); err != nil {
		return nil, err
	}
	if err := s.start(ctx, bridge); err != nil {
		return nil, err
	}
	if _, err := s.sandbox(ctx, "run", "--", "sh", "-ec", git+"; git init -q; git add .; git commit -qm first"); err != nil {
		return nil, err
	}
	s.first, err = treesnap.Take(s.dir)
	return s, err
}

func (s *soak) start(ctx context.Context, bridge string) error {
	if _, err := s.sandbox(ctx, "start", "--bridge", bridge); err != nil {
		return err
	}
	text, err := s.sandbox(ctx, "status", "--json")
	var status struct{ PID int }
	if err == nil {
		err = json.Unmarshal([]byte(text), &status)
	}
	s.pid = status.PID
	return err
}

// sandbox runs the program in the folder.
func (s *soak) sandbox(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.program, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(s.base, "state"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("sandbox %q: %w\n%s%s", args, err, &stdout, &stderr)
	}
	return stdout.String(), nil
}

// git says who commits.
const git = `export GIT_AUTHOR_NAME=s GIT_AUTHOR_EMAIL=s@s GIT_COMMITTER_NAME=s GIT_COMMITTER_EMAIL=s@s`

// scripts are what a round draws from. N is a number. Those that cannot be done now may fail.
var scripts = []string{
	"make -s -j3 OUT=b1",
	"make -s -j3 OUT=b2",
	"make -s OUT=bN; rm -rf bN",
	"for i in 1 2 3 4 5; do rm -rf tmpN; cp -a src tmpN; done",
	"mkdir -p copyN; tar cf - src | tar xf - -C copyN",
	"rm -rf copy* tmp*",
	"rm -rf b1; make -s -j2 OUT=b1",
	git + "; sed -i 's/text/text N/' src/*1.c; git commit -qam N",
	git + "; git checkout -q -B branchN; git mv src/f2.c src/g2.c; git commit -qm moved; git checkout -q -",
	git + "; git stash -q; git stash pop -q; git gc -q",
	git + "; git reset -q --hard HEAD~1; git clean -fdxq",
	"for i in $(seq 300); do echo $i N >>log; done; sort -o log log",
	"sqlite3 db 'create table if not exists t (a, b); insert into t select value, randomblob(500) from generate_series(1, 300); update t set b = 1 where a = N'",
	"python3 -m compileall -q . ; find . -name '*.o' | head -20 | xargs rm -f",
	"truncate -s 30000000 big; for i in $(seq 50); do dd if=/dev/urandom of=big bs=4k count=1 seek=$((i * N % 7000)) conv=notrunc status=none; done",
	"exec 9>>kept; (sleep 1; echo late N >&9) & echo early >&9",
}

// round lets some commands run at the same time, goes back and forth, and compares.
func (s *soak) round(ctx context.Context) error {
	s.rounds++
	before, n, err := s.state(ctx)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	failed := make(chan error, len(scripts))
	for _, i := range s.r.Perm(len(scripts))[:1+s.r.IntN(4)] {
		s.commands++
		script := strings.ReplaceAll(scripts[i], "N", fmt.Sprint(s.r.IntN(1000))) + "\ntrue"
		all.Go(func() {
			if _, e := s.sandbox(ctx, "run", "--", "sh", "-c", script); e != nil && ctx.Err() == nil {
				failed <- e
			}
		})
	}
	all.Wait()
	switch {
	case ctx.Err() != nil:
		return nil
	case len(failed) > 0:
		return <-failed
	}
	after, now, err := s.state(ctx)
	if err != nil || now == n {
		return err
	}
	steps := now - n
	if err := s.undo(ctx, steps, before); err != nil {
		return err
	}
	if s.r.IntN(3) > 0 {
		if _, err := s.sandbox(ctx, "redo", fmt.Sprint(steps)); err != nil {
			return err
		}
		s.redone += steps
		if err := s.equal("redo", after); err != nil {
			return err
		}
		n = now
	}
	if n > most {
		return s.back(ctx)
	}
	return nil
}

// back undoes everything but the first commit.
func (s *soak) back(ctx context.Context) error {
	_, n, err := s.state(ctx)
	if err != nil || n <= 1 {
		return err
	}
	return s.undo(ctx, n-1, s.first)
}

func (s *soak) undo(ctx context.Context, steps int, want *treesnap.Snapshot) error {
	if _, err := s.sandbox(ctx, "undo", fmt.Sprint(steps)); err != nil {
		return err
	}
	s.undone += steps
	return s.equal("undo", want)
}

// state is the tree, and the length of the history, when what was left running has ended.
func (s *soak) state(ctx context.Context) (*treesnap.Snapshot, int, error) {
	if _, err := s.sandbox(ctx, "run", "--", "sh", "-c", "while pgrep -x sleep >/dev/null; do sleep 0.1; done"); err != nil {
		return nil, 0, err
	}
	snap, err := treesnap.Take(s.dir)
	if err != nil {
		return nil, 0, err
	}
	text, err := s.sandbox(ctx, "history", "--json")
	var steps []struct{}
	if err == nil {
		err = json.Unmarshal([]byte(text), &steps)
	}
	return snap, len(steps), err
}

func (s *soak) equal(what string, want *treesnap.Snapshot) error {
	got, err := treesnap.Take(s.dir)
	if err != nil {
		return err
	}
	s.compared++
	if d := treesnap.Diff(want, got, treesnap.Options{IgnoreLinks: true}); len(d) > 0 {
		return fmt.Errorf("round %d, after the %s the tree is another:\n%s", s.rounds, what, strings.Join(d[:min(len(d), 50)], "\n"))
	}
	return nil
}

// memory is what the session takes.
func (s *soak) memory() string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	var out []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && (f[0] == "VmRSS:" || f[0] == "VmHWM:" || f[0] == "Threads:") {
			out = append(out, strings.Join(f, " "))
		}
	}
	return strings.Join(out, ", ")
}

// end ends the session, and removes everything if all was right.
func (s *soak) end(right bool) error {
	_, err := s.sandbox(context.Background(), "stop")
	if !right {
		return errors.Join(err, fmt.Errorf("kept: %s", s.base))
	}
	return errors.Join(err, os.RemoveAll(s.base))
}
