package jail

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/filters"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
	"github.com/codeagent/sandbox/messages/lexical"
)

// Explain says how a jail of that configuration would show a path of the host, which need
// not exist. It makes the plan that [Runtime.Start] would carry out and looks which of
// its mounts the path lies on; it changes nothing. Services, brokers and what a program
// inside mounts over it are not part of it.
func Explain(cfg hypervisor.Config, path string) (hypervisor.Sight, error) {
	u, err := chooseAccount(cfg.UID, cfg.GID)
	if err != nil {
		return hypervisor.Sight{}, fmt.Errorf("jail: %w", err)
	}
	table, err := readMounts()
	if err != nil {
		return hypervisor.Sight{}, err
	}
	p, refuse, err := makePlan(cfg, u, table, false, "", nil)
	if err != nil {
		return hypervisor.Sight{}, err
	}
	s := hypervisor.Sight{Path: places.ResolveMount(filepath.Clean(path)), Why: "the host's file system, read-only", Read: true, Exec: true}
	theirs, reached := true, true // the host's own mode bits decide further, those on the way too
	s.Remedy = "--rw " + s.Path + " lets commands write it, --overlay " + s.Path + " lets them write to a copy"
	for _, m := range p.mounts {
		if lexical.Within(s.Path, m.path) {
			if m.explain(&s); m.gate {
				p.explainGate(&s, m.path)
			}
			if m.op == opDev {
				(&planner{user: u}).explainDevice(&s, p.devices)
			}
			theirs, reached = m.op == opWritable || m.op == opBind || m.op == opNoExec || m.op == opOverlay && m.readOnly, m.op == opNoExec
			if m.op == opTmpfs || m.op == opDir {
				s.Write = s.Write && (!u.ByRoot || !p.onTheWay(s.Path, m.path))
			}
		}
	}
	for i, names := range refuse {
		for _, name := range names {
			if hidden := filepath.Join(p.paths[i], name); lexical.Within(s.Path, hidden) {
				(&mount{op: opHideFile, path: hidden}).explain(&s)
			}
		}
	}
	for _, hidden := range p.secret { // also where it could not be seen anyway
		if lexical.Within(s.Path, hidden) && !s.Read {
			(&mount{op: opHideFile, path: hidden}).explain(&s)
			theirs = false
		}
	}
	if theirs {
		(&planner{user: u}).permit(&s, reached)
		explainPipe(&s, !cfg.Containers && kernelLandlock() >= filters.LandlockRenames)
	}
	return s, nil
}

// explainPipe says of a named pipe of the host what a read-only mount does not: who may write to it.
func explainPipe(s *hypervisor.Sight, confined bool) {
	var st unix.Stat_t
	if s.Write || !s.Read || unix.Stat(s.Path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return
	}
	if s.Write = !confined; confined {
		s.Why += "; Landlock keeps this named pipe from being opened for writing"
		return
	}
	s.Why += "; a mount does not keep a named pipe from being written to, and Landlock is not there"
}

// onTheWay tells whether the first directory above path that is there, below the one that
// is top, was made only because another mount lies in it. It belongs to the supervisor's user.
func (p *plan) onTheWay(path, top string) bool {
	for dir := filepath.Dir(path); lexical.Below(dir, top); dir = filepath.Dir(dir) {
		for _, m := range p.mounts {
			if lexical.Within(m.path, dir) {
				return m.path != dir
			}
		}
	}
	return false
}

// permit takes from s what the mode bits do not give the workload: its own, and with
// reached those of the directories above it, which a mount of its own leaves behind.
func (p *planner) permit(s *hypervisor.Sight, reached bool) {
	if dir, ok := p.user.BlockedAt(filepath.Dir(s.Path)); ok && reached {
		*s = hypervisor.Sight{Path: s.Path, Why: fmt.Sprintf("the user of commands, %d, may not search %s", p.user.UID, dir)}
		return
	}
	var st unix.Stat_t
	if err := unix.Stat(s.Path, &st); err != nil {
		s.Why = "there is no such file; it would be in " + s.Why
		return
	}
	mayExec := s.Exec
	may := func(flag uint32, bit uint32) bool {
		if p.user.ByRoot {
			return p.user.Bits(&st)&bit != 0
		}
		return unix.Access(s.Path, flag) == nil
	}
	s.Exec = s.Exec && may(unix.X_OK, 1)
	if s.Write && !may(unix.W_OK, 2) {
		s.Write = false
		s.Why += fmt.Sprintf("; user %d may not write it (mode %04o)", p.user.UID, st.Mode&0o7777)
	}
	if s.Read && !may(unix.R_OK, 4) {
		s.Read, s.Remedy = false, "" // no flag gives what the owner does not
		s.Why += fmt.Sprintf("; user %d may not read it (mode %04o)", p.user.UID, st.Mode&0o7777)
	}
	if s.Read && mayExec && !s.Exec {
		s.Why += fmt.Sprintf("; it is not executable (mode %04o)", st.Mode&0o7777)
	}
}

// executable tells whether somebody may execute what is at path: who owns it is another
// inside. What is not there may become so.
func executable(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) != nil || st.Mode&0o111 != 0
}

// explain says what a mount makes of a path on it.
func (m *mount) explain(s *hypervisor.Sight) {
	*s = hypervisor.Sight{Path: s.Path}
	switch m.op {
	case opHideDir, opHideFile:
		s.Why = "hidden: " + m.path + " may hold secrets, or leads outside"
		s.Remedy = "--show " + m.path + " shows it"
	case opTmpfs, opDir:
		// Of the host's nothing is there to be read; something else may be made.
		s.Read, s.Exec = s.Path == m.path, s.Path == m.path
		s.Write = m.own || m.mode&0o002 != 0
		s.Why = m.path + " is the jail's own, in memory: nothing of the host's is in it"
		s.Remedy = "--show " + s.Path + " shows the host's, read-only"
	case opDev:
		s.Read, s.Write = true, true
		s.Why = "/dev holds the few devices that programs need"
	case opSymlink, opFile:
		s.Read, s.Exec = true, m.op == opSymlink
		s.Why = m.path + " is made for the jail"
	case opShare, opFolder:
		s.Read, s.Write, s.Exec, s.Undo = true, !m.readOnly, executable(s.Path) && !m.noExec, !m.readOnly
		s.Why = "the working folder " + m.path
		if m.readOnly {
			s.Why += ", which is read-only"
		}
		if m.noExec {
			s.Why += ", on a mount from which nothing is executed (noexec)"
		}
	case opOverlay:
		s.Read, s.Write, s.Exec = true, true, true
		s.Why = "an overlay over " + m.path + ": what is written is kept beside the host's directory"
		if m.readOnly {
			s.Write, s.Why = false, "the host's file system, read-only"
			s.Remedy = "--overlay " + s.Path + " lets commands write to a copy"
		} else if m.session {
			s.Why = "an overlay over " + m.path + ": what is written goes with the session"
		}
		for _, hidden := range m.masked {
			if lexical.Within(s.Path, hidden) {
				(&mount{op: opHideFile, path: hidden}).explain(s)
			}
		}
	case opWritable:
		s.Read, s.Write, s.Exec = true, true, true
		s.Why = m.path + " of the host itself, by --rw: writing it cannot be undone"
	case opNoExec:
		s.Read = true
		s.Why = "the host's file system, read-only; nothing is executed from " + m.path
	case opBind:
		s.Read, s.Exec = true, true
		s.Why = m.path + " of the host, read-only"
	}
}
