package launch

import (
	"context"
	"log/slog"
	"os/exec"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/texts"
	"github.com/codeagent/sandbox/hypervisor/programs"
)

const (
	program  = "notify-send"
	patience = 10 * time.Second // with the program
	maxBody  = 300              // characters
	// pause is how long nothing more is told while something waits: a person who was told looks at all of it.
	pause = time.Minute
)

// NotifyOptions say what to tell.
type NotifyOptions struct {
	Mode   string // "auto" or "off"
	Getenv func(string) string
	// Writable are directories in which programs inside can write: nothing in them is executed.
	Writable []string
	Logger   *slog.Logger
}

// NotifySession is a running one.
type NotifySession interface {
	api.Notifier
	Done() <-chan struct{}
}

// WatchToNotify tells of the session's questions until it ends, if there is a desktop and a notify-send.
func WatchToNotify(s NotifySession, o NotifyOptions) {
	path, ok := find(o)
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	texts := make(chan string, 1)
	b := burst{}
	stop := s.Subscribe(func(e api.Event) {
		if text, ok := b.event(e); ok {
			select {
			case texts <- text:
			default: // one is being told of just now
			}
		}
	}, api.EventSafeguardTriggered, api.EventSafeguardDecided)
	go func() {
		<-s.Done()
		stop()
		cancel()
	}()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case text := <-texts:
				if err := tell(ctx, path, text); err != nil {
					o.Logger.Debug("no notification", "component", "notify", "err", err)
				}
			}
		}
	}()
}

// NotifyPossible reports whether there is a desktop, and a notify-send to tell it something with.
func NotifyPossible(o NotifyOptions) bool {
	_, ok := find(o)
	return ok
}

// find looks for the program where there is a desktop, and leaves out what a program inside could have put there.
func find(o NotifyOptions) (path string, ok bool) {
	if o.Mode == "off" || o.Getenv("DBUS_SESSION_BUS_ADDRESS") == "" && o.Getenv("DISPLAY") == "" && o.Getenv("WAYLAND_DISPLAY") == "" {
		return "", false
	}
	path, err := programs.Find(program, o.Getenv("PATH"), o.Writable)
	if err != nil {
		o.Logger.Debug("the desktop is not told of questions", "component", "notify", "err", err)
	}
	return path, err == nil
}

// burst are questions that wait together.
type burst struct {
	waiting map[string]bool
	told    time.Time
}

// event returns what to tell, if an event is worth that.
func (b *burst) event(e api.Event) (text string, ok bool) {
	if e.Decision != nil {
		delete(b.waiting, e.Decision.ID)
		return "", false
	}
	if e.Pending == nil {
		return "", false
	}
	if b.waiting == nil {
		b.waiting = map[string]bool{}
	}
	first := len(b.waiting) == 0
	b.waiting[e.Pending.ID] = true
	if !first && e.At.Sub(b.told) < pause {
		return "", false
	}
	b.told = e.At
	return body(*e.Pending), true
}

// body is a question as plain text. The program expands backslashes, and a desktop takes the result for markup.
func body(p api.Pending) string {
	text := texts.Line(p.Message)
	if len(p.Callers) > 0 {
		text = texts.Name(p.Callers[0].Name) + ": " + text
	}
	return texts.Unmarked(texts.Clip(text, maxBody)) + "\nDecide with: sandbox approvals"
}

// tell shows a notification.
func tell(ctx context.Context, path, text string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--app-name=sandbox", "--urgency=normal", "--", "A decision is needed", text)
	cmd.WaitDelay = time.Second
	cmd.Dir = "/"
	return cmd.Run()
}
