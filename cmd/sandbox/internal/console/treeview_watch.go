package console

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/codeagent/sandbox/actors/api"
)

// watchInterval is how often --watch asks.
const watchInterval = 500 * time.Millisecond

// WatchTree shows the tree full-screen on a terminal until q, Ctrl-C or the session's
// end, which is an error.
func WatchTree(ctx context.Context, in io.Reader, out io.Writer, s api.Service) error {
	p := tea.NewProgram(&watcher{ctx: ctx, service: s},
		tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out))
	end, err := p.Run()
	if err != nil && !errors.Is(err, tea.ErrInterrupted) {
		return err
	}
	if w, ok := end.(*watcher); ok && w.err != nil {
		return errors.New("the session has ended")
	}
	return nil
}

// watcher is the model of the full-screen view.
type watcher struct {
	ctx           context.Context
	service       api.Service
	tree          api.Tree
	pending       []api.Pending
	err           error
	width, height int
	top           int
}

// look is what one question to the session brought.
type look struct {
	tree    api.Tree
	pending []api.Pending
	err     error
}

func (w *watcher) ask() tea.Msg {
	tree, err := w.service.Inspect(w.ctx)
	if err != nil {
		return look{err: err}
	}
	pending, err := w.service.Pending(w.ctx)
	return look{tree: tree, pending: pending, err: err}
}

// Init implements tea.Model.
func (w *watcher) Init() tea.Cmd { return w.ask }

// Update implements tea.Model.
func (w *watcher) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case look:
		if m.err != nil {
			w.err = m.err
			return w, tea.Quit
		}
		w.tree, w.pending = m.tree, m.pending
		return w, tea.Tick(watchInterval, func(time.Time) tea.Msg { return w.ask() })
	case tea.WindowSizeMsg:
		w.width, w.height = m.Width, m.Height
	case tea.KeyPressMsg:
		switch m.String() {
		case "q", "esc", "ctrl+c":
			return w, tea.Quit
		case "down", "j":
			w.top++
		case "up", "k":
			w.top = max(0, w.top-1)
		}
	}
	return w, nil
}

// View implements tea.Model.
func (w *watcher) View() tea.View {
	v := tea.NewView(w.text())
	v.AltScreen = true
	return v
}

func (w *watcher) text() string {
	var b bytes.Buffer
	b.WriteString("session " + w.tree.Session + "   " + w.tree.At.Local().Format(time.TimeOnly) + "   q: leave\n\n")
	tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	WriteTree(tw, w.tree)
	_ = tw.Flush() // a bytes.Buffer takes everything
	for _, p := range w.pending {
		b.WriteString("\nwaiting: " + p.ID + "  " + Shown(p.Message) + "  (sandbox approve " + p.ID + " | sandbox deny " + p.ID + ")")
	}
	if room := w.height - bytes.Count(b.Bytes(), []byte("\n")) - 3; room > 0 { // the newest messages, as many as there is room for
		b.WriteString("\n")
		WriteMessages(tw, w.tree, room)
		_ = tw.Flush()
	}
	lines := strings.Split(b.String(), "\n")
	w.top = min(w.top, max(0, len(lines)-w.height))
	lines = lines[w.top:]
	if w.height > 0 && len(lines) > w.height {
		lines = lines[:w.height]
	}
	for i, l := range lines {
		if r := []rune(l); w.width > 0 && len(r) > w.width {
			lines[i] = string(r[:w.width])
		}
	}
	return strings.Join(lines, "\n")
}
