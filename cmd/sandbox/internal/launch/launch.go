package launch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/inherit"
	"github.com/codeagent/sandbox/messages/lexical"
)

// Launcher knows what the flags and the configuration ask for. It is not changed
// once a method was called; methods are safe for concurrent use.
type Launcher struct {
	Conf *config.Set
	Dirs []string // what --working-dir names
	// ConfigFile is what --config-file names.
	ConfigFile string
	AllowHost  bool // --allow-host was given
	Umask      int  // the user's: the program's own is zero
	// Ahead is what [Prepare] has begun, or nil.
	Ahead  *Preparation
	Log    *slog.Logger
	Stderr io.Writer         // hears what opening a log has repaired
	Remark func(text string) // tells the user something
	// Left hears what the configuration or a request asks for and this session will not have; nil: Remark tells it.
	Left func(hypervisor.Left)
	// RemarkOnce is Remark for what several parts of a command find out; nil: it is not told.
	RemarkOnce func(text string)
}

// Config is what the flags and the configuration say about a session.
func (l *Launcher) Config(dirs []api.Directory) api.Config {
	serving := l.Conf.Bridge
	if runtime.GOOS == "windows" {
		serving.PosixMetadata = true // its file systems hold no modes, owners and symlinks of Linux's
	}
	return api.Config{
		Directories: dirs,
		Undo:        l.Conf.Undo.Undo,
		Safeguards:  l.Conf.Safeguards,
		Timing:      l.Conf.Steps,
		Commands:    l.Conf.Commands.AtOnce, FolderBytes: max(l.Conf.Limits.Folders, 0),
		Serving: serving,
		Jail:    l.Conf.Jail.Jail,
		Umask:   uint32(l.Umask),
		Logger:  l.Log,
	}
}

// remarkAbsent says of what the configuration hides if it is not there: nothing hides it when it is made later. A flag that names such a path is refused.
func (l *Launcher) remarkAbsent() {
	var absent []string
	for _, h := range l.Conf.Jail.Hide {
		if _, err := os.Lstat(h); errors.Is(err, fs.ErrNotExist) {
			absent = append(absent, console.Shown(h))
		}
	}
	const few = 3
	if len(absent) > few {
		absent = append(absent[:few], fmt.Sprintf("and %d more", len(absent)-few))
	}
	if len(absent) > 0 && l.RemarkOnce != nil {
		l.RemarkOnce("sandbox: jail.hide names what is not there, and what is made there later can be read: " + strings.Join(absent, ", "))
	}
}

// SessionConfig is what the configuration and, above it, the flags ask for.
func (l *Launcher) SessionConfig() (api.Config, error) {
	dirs, err := l.Directories(false)
	if err != nil {
		return api.Config{}, err
	}
	return l.SessionConfigFor(dirs)
}

// SessionConfigFor is SessionConfig for other folders than the flags name.
func (l *Launcher) SessionConfigFor(dirs []api.Directory) (_ api.Config, err error) {
	dirs = l.withGitDirectories(dirs)
	l, here, left, err := l.fulfil()
	if err != nil {
		return api.Config{}, err
	}
	if l, err = l.withProfile(dirs); err != nil {
		return api.Config{}, err
	}
	cfg := l.Config(dirs)
	l.remarkAbsent()
	l.remarkServed(dirs)
	isolation := here[0].Isolation
	if isolation == "jail" && len(here) == 1 {
		cfg.Bridge = here[0].Bridge // only it does what is asked for
	}
	cfg.Settings = lacking(l.settings(), left)
	if l.ConfigFile == "" {
		cfg.ConfigFiles = l.Conf.Stamps()
	}
	if cfg.RuntimeDir, err = l.RuntimeDir(); err != nil {
		return cfg, err
	}
	cfg.MachineFiles = l.machineFiles()
	// Nothing inside may reach the control socket or read the logs.
	cfg.Hide = append(cfg.Hide, cfg.RuntimeDir)
	for _, d := range dirs {
		cfg.Hide = append(cfg.Hide, undoDirs(d)...)
	}
	if cfg.Places, err = l.places(); err != nil {
		return cfg, err
	}
	cfg.Resources = l.Conf.Limits.Resources()
	if cfg.Network, err = l.network(); err != nil {
		return cfg, err
	}
	if err = l.withPolicy(&cfg); err != nil {
		return cfg, err
	}
	if cfg.Runtime, err = l.Runtime(isolation, dirs...); err != nil {
		return cfg, err
	}
	if err = l.agents(&cfg); err != nil {
		return cfg, err
	}
	return cfg, l.gate(&cfg)
}

// undoDirs are the folder's log and, where it is by default or in a directory
// of logs, those of all other folders beside it.
func undoDirs(d api.Directory) []string {
	var dirs []string
	if d.UndoDir != "" {
		dirs = append(dirs, d.UndoDir)
	}
	all := filepath.Dir(d.UndoDir)
	in, err := actors.LogIn(all, d.Path)
	if err == nil && in == d.UndoDir && !lexical.Within(d.Path, all) {
		dirs = append(dirs, all) // without the folder in it
	}
	if own, err := actors.DefaultUndoDir(d.Path); err == nil {
		if all := actors.LogsIn(own); all != "" {
			dirs = append(dirs, all)
		}
	}
	return dirs
}

// unfit says which variables name no directory of use, and what is used instead.
func (l *Launcher) unfit(instead string, variables []inherit.UnfitDir) {
	if len(variables) == 0 || l.RemarkOnce == nil {
		return
	}
	var each []string
	for _, v := range variables {
		each = append(each, fmt.Sprintf("%s is %s: %s", v.Name, console.Shown(v.Value), v.Why))
	}
	l.RemarkOnce(fmt.Sprintf("sandbox: %s; %s is used instead", strings.Join(each, ", and "), instead))
}

// RuntimeDir is where running sessions register and have their sockets. It is
// private to the user; if its mode is not, that is put back, with a warning.
func (l *Launcher) RuntimeDir() (string, error) {
	base, unfit := inherit.SocketDir()
	instead := base
	if len(unfit) == 1 && unfit[0].Name == "TMPDIR" {
		instead = filepath.Dir(base) // as is said of other temporary files
	}
	l.unfit(instead, unfit)
	if err := os.Mkdir(base, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("no place for the control socket: %w; set XDG_RUNTIME_DIR", err)
	}
	opened, err := private(base)
	if opened != 0 {
		l.Remark(fmt.Sprintf("sandbox: others had access to %s (mode %#o); it is private again", base, opened))
	}
	if err != nil {
		return "", err
	}
	return base, nil
}
