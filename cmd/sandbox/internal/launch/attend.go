package launch

import (
	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
)

// Attended has a session refuse at once what nobody can be asked: commands without a terminal, where no desktop tells of questions and no other program of the user's shows them ([Launcher.Attend]).
// Who has set the time to wait for an answer has somebody who comes in that time.
func (l *Launcher) Attended(cfg *api.Config) {
	if l.Conf.Origin("safeguards.timeout")[0].Level != config.FromDefault {
		return
	}
	dir, desktop := cfg.RuntimeDir, NotifyPossible(l.notifications(*cfg))
	cfg.Attended = func() bool { return desktop || actors.Attended(dir) }
}

// Attend says to the user's sessions that this process shows a person what they ask, until leave is called.
func (l *Launcher) Attend() (leave func()) {
	dir, err := l.RuntimeDir()
	if err == nil {
		leave, err = actors.Attend(dir)
	}
	if err != nil {
		l.Log.Warn("sessions without a terminal do not know that somebody is here, and refuse what they would ask", "component", "cli", "err", err)
		return func() {}
	}
	return leave
}
