package launch

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/confine"
	"github.com/codeagent/sandbox/hypervisor/inherit"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/hypervisor/none"
)

// Runtime returns the runtime for a value of --isolation and the working
// folders: [Launcher.isolation] says what auto is. "none" must be asked for.
func (l *Launcher) Runtime(name string, dirs ...api.Directory) (hypervisor.Runtime, error) {
	if name == "vm" || name == "landlock" { // they have temporary files of their own outside
		l.unfit(inherit.TemporaryDir())
	}
	switch name {
	case "none":
		dir, err := l.RuntimeDir()
		if err != nil {
			return nil, err
		}
		l.Remark("sandbox: --isolation none: this command is NOT isolated; only its changes to the working folder can be undone")
		return none.New(none.Options{Dir: filepath.Join(dir, "mounts"), Umask: l.Umask, Logger: l.Log}), nil
	case "vm":
		return l.Machine(dirs...)
	case "landlock":
		return confine.New(confine.Options{GuestBinary: guestBinary(), Umask: l.Umask, Logger: l.Log}), nil
	default:
		outside, err := l.outside()
		if err != nil {
			return nil, err
		}
		return jail.New(jail.Options{GuestBinary: guestBinary(), Ahead: l.Ahead, Umask: l.Umask, Logger: l.Log, Network: outside}), nil
	}
}

// jail is a runtime to find out what works.
func (l *Launcher) jail() *jail.Runtime {
	return jail.New(jail.Options{GuestBinary: guestBinary(), Umask: l.Umask, Logger: l.Log})
}

// Preparation is what a session in a jail needs whatever the configuration says.
type Preparation = jail.Preparation

// Prepare begins to make it, beside what the caller does next.
func Prepare() *Preparation {
	Restrain(slog.New(slog.DiscardHandler)) // who starts the session does it again, and says what fails
	p := jail.NewPreparation(guestBinary())
	p.Begin()
	return p
}

// guestBinary returns the embedded sandbox-guest, or nil for this program.
func guestBinary() func() ([]byte, error) {
	guest := EmbeddedGuest()
	if len(guest) == 0 {
		return nil
	}
	return func() ([]byte, error) { return guest, nil }
}

// isolation is the value of --isolation, and what auto means here: the jail, or where none
// can be started, Landlock, which is weaker, and said so. Other systems than Linux have virtual machines alone.
func (l *Launcher) isolation() string {
	if l.Conf.Isolation == "auto" && runtime.GOOS != "linux" {
		return "vm" // namespaces and Landlock are Linux'
	}
	if l.Conf.Isolation != "auto" || !jail.Doubtful() {
		if l.Conf.Isolation == "auto" {
			return "jail"
		}
		return l.Conf.Isolation
	}
	ctx, cancel := context.WithTimeout(context.Background(), probePatience)
	defer cancel()
	if why := l.jail().Probe(ctx); why == nil || !errors.Is(why, hypervisor.ErrUnavailable) {
		return "jail"
	}
	if err := confine.New(confine.Options{GuestBinary: guestBinary()}).Probe(ctx); err != nil {
		l.Log.Debug("no Landlock instead of the jail", "component", "control", "err", err)
		return "jail" // which says what is missing
	}
	l.Remark("sandbox: no jail can be made here ('sandbox doctor' says why), so --isolation landlock is taken. It is weaker:\n  - " +
		strings.Join(confine.Weaker(), "\n  - "))
	return "landlock"
}

// Weaker says in which ways Landlock is weaker than a jail.
func Weaker() []string { return confine.Weaker() }

// probePatience bounds the attempt to start a jail.
const probePatience = 10 * time.Second
