package launch

import (
	"os"
	"runtime"

	"github.com/codeagent/sandbox/actors/api"
)

// Notify tells the desktop of the session's questions, if the configuration wants that.
func (l *Launcher) Notify(s api.Live, cfg api.Config) { WatchToNotify(s, l.notifications(cfg)) }

func (l *Launcher) notifications(cfg api.Config) NotifyOptions {
	return NotifyOptions{System: runtime.GOOS, Mode: l.Conf.Notifications.Desktop, Getenv: os.Getenv, Writable: writable(cfg), Logger: l.Log}
}

// writable are the directories in which programs inside can write: nothing in them is started outside.
func writable(cfg api.Config) []string {
	dirs := append(append([]string{}, cfg.Places.Writable...), cfg.Places.Overlay...)
	for _, d := range cfg.Directories {
		dirs = append(dirs, d.Path)
	}
	return dirs
}
