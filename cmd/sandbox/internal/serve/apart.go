package serve

import (
	"errors"
	"io"
	"os"

	"github.com/codeagent/sandbox/actors/frontend/stdio"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
)

// takenFD is where a process that has a session in another's place says that it takes a session.start: a byte for each.
const takenFD = 3

// elsewhere starts the process that has the session of a machine in our place: the walls around that are for good, and this program's client may start other sessions later. It
// returns nil for any other session, and for one that cannot start: that is told here.
func (s *server) elsewhere(r stdio.StartRequest) stdio.Other {
	if len(s.Again) == 0 || s.UI || s.conf.MCP.Socket != "" || s.Metrics != "" { // those serve all sessions
		return nil
	}
	c := s.configure(r)
	if s.next = &c; c.err != nil || !launch.Wanted(c.cfg) {
		return nil
	}
	o, err := startOther(s.Again, s.out, s.Stderr)
	if err != nil {
		s.Launcher.Log.Warn("the session has no process of its own, and no wall", "component", "control", "err", err)
		return nil
	}
	return o
}

// takes says that we take a session.start, unless we have had the one session that the walls around us are for.
func (s *server) takes(taken io.Writer, exists bool) bool {
	if !exists && s.served.Load() {
		return false
	}
	_, err := taken.Write([]byte{'t'})
	return err == nil
}

// part makes this process one that has a session in another's place.
func (s *server) part() (takes func(exists bool) bool, err error) {
	taken := os.NewFile(takenFD, "taken")
	if st, err := taken.Stat(); err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		return nil, errors.New("nobody has started this as a part of another program")
	}
	keepOwn(taken)
	return func(exists bool) bool { return s.takes(taken, exists) }, nil
}
