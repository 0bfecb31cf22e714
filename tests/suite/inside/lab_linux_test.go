package inside

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/guest/inner"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/confine"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/hypervisor/none"
	"github.com/codeagent/sandbox/tests/kit/require"
)

func TestMain(m *testing.M) {
	if inner.Invoked(os.Args) {
		os.Exit(inner.Main(os.Args))
	}
	hostfs.ClearUmask()
	os.Exit(m.Run())
}

// patience bounds everything that should happen soon.
const patience = time.Minute

// lab is a session over a folder.
type lab struct {
	*actors.Session
	t         testing.TB
	base      string
	work      string // the folder
	other     string // inside: a directory of no folder that commands may write to
	isolation string
}

// everywhere runs a test in a session of each kind. A commit has two of the four kinds as root, and the others as a user.
func everywhere(t *testing.T, f func(l *lab)) {
	turn := require.Turn(t)
	for _, kind := range []string{"fuse", "mediated", "landlock", "none"} {
		if turn() {
			t.Run(kind, func(t *testing.T) { f(newLab(t, kind)) })
		}
	}
}

func newLab(t *testing.T, kind string, change ...func(*api.Config)) *lab {
	t.Helper()
	require.FUSE(t)
	require.UserNamespaces(t)
	base := "/var/cache" // no jail has one of its own in its place
	if os.Getuid() != 0 {
		base = os.Getenv("HOME")
	}
	base, err := os.MkdirTemp(base, "inside-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(base)) })
	l := &lab{t: t, base: base, work: filepath.Join(base, "work"), isolation: kind, other: "/tmp/other"}
	must(t, errors.Join(os.Chmod(base, 0o755), os.Mkdir(l.work, 0o755), os.Mkdir(filepath.Join(base, "run"), 0o700)))
	must(t, errors.Join(os.WriteFile(filepath.Join(l.work, "file"), []byte("content"), 0o644), os.MkdirAll(filepath.Join(l.work, "dir/below"), 0o755)))
	t.Setenv("HOME", base)
	cfg := api.Config{
		Directories: []api.Directory{{Path: l.work, UndoDir: filepath.Join(base, "undo")}}, RuntimeDir: filepath.Join(base, "run"),
		Jail: hypervisor.Jail{Hide: []string{filepath.Join(base, "run")}}, Umask: 0o022,
	}
	switch kind {
	case "fuse":
		cfg.Runtime = jail.New(jail.Options{Umask: 0o022})
	case "mediated":
		cfg.Runtime, cfg.Bridge = jail.New(jail.Options{Umask: 0o022}), hypervisor.BridgeMediated
	case "landlock":
		cfg.Runtime, cfg.Bridge = confine.New(confine.Options{Umask: 0o022}), hypervisor.BridgeMediated
	case "none":
		cfg.Runtime, cfg.Jail = none.New(none.Options{Dir: filepath.Join(base, "mounts"), Umask: 0o022}), hypervisor.Jail{}
		l.other = filepath.Join(base, "other")
	}
	for _, f := range change {
		f(&cfg)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l.Session, err = actors.Start(ctx, cfg)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		must(t, l.Close(ctx))
	})
	if kind == "landlock" { // there is nothing else
		l.other = filepath.Join(strings.TrimSpace(l.works("echo $TMPDIR")), "other")
	}
	return l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// works runs a script to its end, which must be well, and returns what it prints.
func (l *lab) works(script string) string {
	l.t.Helper()
	r, w, err := os.Pipe()
	must(l.t, err)
	defer r.Close()
	out := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(r)
		out <- string(b)
	}()
	res, err := l.Run(l.t.Context(), api.RunRequest{Argv: []string{"sh", "-c", script}, Stdout: w, Stderr: w, Timeout: patience})
	must(l.t, w.Close())
	text := <-out
	if err != nil || res.Status.Code != 0 {
		l.t.Fatalf("%s: %+v, %v: %s", script, res, err, text)
	}
	return text
}

// steps is how many there are to undo.
func (l *lab) steps() int {
	l.t.Helper()
	h, err := l.History(l.t.Context(), api.HistoryRequest{})
	must(l.t, err)
	return len(h)
}

func (l *lab) write(path, content string) api.PathChange {
	l.t.Helper()
	c, err := l.WritePath(l.t.Context(), api.WritePathRequest{Path: path, Origin: api.Origin{Frontend: "test", Tool: "upload"}}, strings.NewReader(content))
	if err != nil {
		l.t.Errorf("write %s: %v", path, err)
	}
	return c
}

func (l *lab) read(path string) string {
	l.t.Helper()
	var b bytes.Buffer
	if err := l.ReadPath(l.t.Context(), api.ReadPathRequest{Path: path}, &b); err != nil {
		l.t.Errorf("read %s: %v", path, err)
	}
	return b.String()
}

// gone fails unless there is nothing.
func (l *lab) gone(path string) {
	l.t.Helper()
	if st, err := l.StatPath(l.t.Context(), api.PathRequest{Path: path}); !errors.Is(err, fs.ErrNotExist) {
		l.t.Errorf("%s: %+v, %v", path, st, err)
	}
}
