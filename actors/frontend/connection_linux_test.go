package frontend_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func TestMain(m *testing.M) { actortest.Main(m) }

// tapped gives the test what tells actors of connections something.
type tapped struct {
	api.Frontends
	last api.Attachment
}

func (t *tapped) Attach(ctx context.Context, f api.Frontend) (api.Attachment, error) {
	a, err := t.Frontends.Attach(ctx, f)
	t.last = a
	return a, err
}

// shown is what 'inspect' shows of the first connection of that name.
func shown(t *testing.T, s *actors.Session, name string) (n api.TreeNode, ok bool) {
	t.Helper()
	tree, err := s.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range tree.Root.Children {
		for _, kind := range f.Children {
			if f.Name == "frontends" && kind.Name == name && len(kind.Children) > 0 {
				return kind.Children[0], true
			}
		}
	}
	return n, false
}

// awaitShown asks until the connection is shown as wanted.
func awaitShown(t *testing.T, s *actors.Session, name string, want func(n api.TreeNode, there bool) bool) {
	t.Helper()
	for t.Context().Err() == nil {
		if n, ok := shown(t, s, name); want(n, ok) {
			return
		}
	}
	t.Fatalf("%s was never shown so", name)
}

// A connection's actor that crashes cancels its calls and ends its connection;
// other connections and the session go on.
func TestConnectionCrashes(t *testing.T) {
	base := t.TempDir()
	s, err := actors.Start(t.Context(), api.Config{Directories: []api.Directory{{Path: base, UndoDir: filepath.Join(t.TempDir(), "undo")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	to := &tapped{Frontends: s}
	crashed, cancelled := make(chan error, 1), make(chan error, 2)
	connect := func(name string) *frontend.Connection {
		c, err := frontend.Connect(t.Context(), to, frontend.ConnectionOptions{
			Name: name, Figures: func() api.Figures { return api.Figures{InFlight: 3, In: 10, Out: 20} },
			Crashed: func(err error) { crashed <- err },
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	other := connect("mcp")
	other.Begin("1", nil)
	broken := connect("stdio")
	broken.Begin("a", func(err error) { cancelled <- err })
	broken.Begin("b", func(err error) { cancelled <- err })
	broken.End("b")
	awaitShown(t, s, "stdio", func(n api.TreeNode, _ bool) bool {
		return n.State == "open" && n.Facts["in_flight"] == "1" && n.Facts["queue"] == "2" && n.Facts["bytes_in"] == "10" && n.Facts["bytes_out"] == "20"
	})

	to.last.Tell("what it does not know")
	for _, c := range []chan error{cancelled, crashed} {
		if err := actortest.Within(t, "the crash", c); !errors.Is(err, messages.ErrCrashed) {
			t.Error(err)
		}
	}
	if len(cancelled) > 0 {
		t.Error("a call that had ended was cancelled")
	}
	broken.Detach()
	awaitShown(t, s, "stdio", func(_ api.TreeNode, there bool) bool { return !there })
	other.Begin("2", nil)
	awaitShown(t, s, "mcp", func(n api.TreeNode, _ bool) bool { return n.Restarts == 0 && n.Facts["in_flight"] == "2" })
	if st, err := s.Status(t.Context()); err != nil || st.State != "offline" {
		t.Errorf("%+v, %v", st, err)
	}
	other.Detach()
}

// When the session has ended there is no actor, and nobody waits for one.
func TestConnectionOfNoSession(t *testing.T) {
	s, err := actors.Start(t.Context(), api.Config{Directories: []api.Directory{{Path: t.TempDir(), UndoDir: filepath.Join(t.TempDir(), "undo")}}})
	if err != nil {
		t.Fatal(err)
	}
	o := frontend.ConnectionOptions{Name: "stdio", Figures: func() api.Figures { return api.Figures{} }}
	c, err := frontend.Connect(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	c.Begin("1", func(err error) { t.Errorf("cancelled: %v", err) })
	c.End("1")
	c.Detach()
	if _, err := frontend.Connect(t.Context(), s, o); !errors.Is(err, messages.ErrStopped) {
		t.Error(err)
	}
	var none *frontend.Connection
	none.Begin("1", nil)
	none.End("1")
	none.Detach()
}
