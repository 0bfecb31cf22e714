package launch

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/texts"
	"github.com/codeagent/sandbox/hypervisor/programs"
)

const (
	program  = "notify-send"
	title    = "A decision is needed"
	patience = 10 * time.Second // with the program
	maxBody  = 300              // characters
	// balloonBody is how many characters of it Windows shows, less what body adds.
	balloonBody = 200
	// pause is how long nothing more is told while something waits: a person who was told looks at all of it.
	pause = time.Minute
)

// NotifyOptions say what to tell.
type NotifyOptions struct {
	// System is the system as [runtime.GOOS] names it.
	System string
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
	d, ok := find(o)
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	texts := make(chan string, 1)
	b := burst{most: d.most}
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
				if err := tell(ctx, d, text); err != nil {
					o.Logger.Debug("no notification", "component", "notify", "err", err)
				}
			}
		}
	}()
}

// NotifyPossible reports whether there is a desktop, and a program to tell it something with.
func NotifyPossible(o NotifyOptions) bool {
	_, ok := find(o)
	return ok
}

// messenger is how a desktop is told.
type messenger struct {
	program string // its path
	// argv are the program's arguments for a text, which is never part of a script, and env are variables for it.
	argv func(text string) (args, env []string)
	most int // characters of a question
	// apart: the program would have the user's console otherwise.
	apart bool
}

// messengers are those of the systems, each with what its program is called or where it lies. Those of macOS and Windows are always there, with programs that nobody has to install.
func messengers(o NotifyOptions) (d messenger, name string, ok bool) {
	switch o.System {
	case "darwin":
		return messenger{argv: appleScript, most: maxBody}, "/usr/bin/osascript", true
	case "windows":
		root := o.Getenv("SystemRoot")
		return messenger{argv: balloon, most: balloonBody, apart: true}, root + `\System32\WindowsPowerShell\v1.0\powershell.exe`, root != ""
	}
	there := o.Getenv("DBUS_SESSION_BUS_ADDRESS") != "" || o.Getenv("DISPLAY") != "" || o.Getenv("WAYLAND_DISPLAY") != ""
	return messenger{argv: notifySend, most: maxBody}, program, there
}

func notifySend(text string) (args, env []string) {
	return []string{"--app-name=sandbox", "--urgency=normal", "--", title, text}, nil
}

// appleScript gives a script its texts as arguments. The first is ours, and so no option: those end at it.
func appleScript(text string) (args, env []string) {
	return []string{"-e", "on run argv", "-e", "display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run", title, text}, nil
}

// balloon gives a script its texts as variables: arguments would become part of it.
func balloon(text string) (args, env []string) {
	const script = "Add-Type -AssemblyName System.Windows.Forms, System.Drawing; " +
		"$n = New-Object System.Windows.Forms.NotifyIcon; " +
		"$n.Icon = [System.Drawing.SystemIcons]::Information; $n.Visible = $true; " +
		"$n.ShowBalloonTip(5000, $env:SANDBOX_NOTIFY_TITLE, $env:SANDBOX_NOTIFY_TEXT, 'Info'); " +
		"Start-Sleep -Seconds 6; $n.Dispose()"
	return []string{"-NoLogo", "-NoProfile", "-NonInteractive", "-Command", script},
		[]string{"SANDBOX_NOTIFY_TITLE=" + title, "SANDBOX_NOTIFY_TEXT=" + text}
}

// find looks for the program where there is a desktop, and leaves out what a program inside could have put there.
func find(o NotifyOptions) (d messenger, ok bool) {
	d, name, there := messengers(o)
	if o.Mode == "off" || !there {
		return d, false
	}
	path, err := programs.Find(name, o.Getenv("PATH"), o.Writable)
	if err != nil {
		o.Logger.Debug("the desktop is not told of questions", "component", "notify", "err", err)
	}
	d.program = path
	return d, err == nil
}

// burst are questions that wait together.
type burst struct {
	most    int // characters of one
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
	return body(*e.Pending, b.most), true
}

// body is a question as plain text. The program expands backslashes, and a desktop takes the result for markup.
func body(p api.Pending, most int) string {
	text := texts.Line(p.Message)
	if len(p.Callers) > 0 {
		text = texts.Name(p.Callers[0].Name) + ": " + text
	}
	return texts.Unmarked(texts.Clip(text, most)) + "\nDecide with: sandbox approvals"
}

// tell shows a notification.
func tell(ctx context.Context, d messenger, text string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	args, env := d.argv(text)
	cmd := exec.CommandContext(ctx, d.program, args...)
	cmd.WaitDelay = time.Second
	if d.apart {
		cmd.SysProcAttr = detached()
	}
	if env != nil {
		cmd.Env = append(os.Environ(), env...)
	}
	cmd.Dir = string(filepath.Separator)
	return cmd.Run()
}
