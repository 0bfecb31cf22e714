package watcher

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/supervision"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// TestWatchAll: a folder that no bridge looks into is watched as a whole, with what is
// made in it later, and without what is left out.
func TestWatchAll(t *testing.T) {
	root := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, text string) {
		t.Helper()
		must(os.WriteFile(filepath.Join(root, path), []byte(text), 0o644))
	}
	must(os.MkdirAll(filepath.Join(root, "a/b/c"), 0o755))
	must(os.MkdirAll(filepath.Join(root, "out/deep"), 0o755))
	var mu sync.Mutex
	var announced []string
	w, err := New(Options{
		Root: root, Clock: supervision.RealClock{},
		Bridge: func() fsbridge.Bridge { return nil },
		Check:  func(paths []string, done func(undolog.Outside, error)) { done(undolog.Outside{Unsure: paths}, nil) },
		External: func(paths []string, _ []undolog.Barrier) {
			mu.Lock()
			defer mu.Unlock()
			announced = append(announced, paths...)
		},
		Ours: func() time.Time { return time.Time{} },
	})
	must(err)
	defer w.Close()
	system := supervision.NewSystem(w.o.Logger)
	defer system.Shutdown()
	pid := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return NewActor(w) }))
	defer func() { must(system.Root.StopFuture(pid).Wait()) }()
	told := func(path string) bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Contains(announced, path)
	}
	tells := func(path string) {
		t.Helper()
		actortest.Eventually(t, path+" is announced", func() bool { return told(path) })
	}
	w.WatchAll([]string{"out"}, 0)
	write("a/b/c/f", "text")
	tells("a/b/c/f")
	must(os.MkdirAll(filepath.Join(root, "new/deep"), 0o755))
	tells("new")
	actortest.Eventually(t, "a new directory is watched", func() bool {
		write("new/deep/f", "text")
		return told("new/deep/f")
	})
	write("out/deep/f", "text")
	write("a/last", "text")
	tells("a/last")
	if told("out/deep/f") {
		t.Error("what is left out is announced")
	}
}
