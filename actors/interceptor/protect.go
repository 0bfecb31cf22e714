package interceptor

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/texts"
	"github.com/codeagent/sandbox/messages"
)

// Verdict is what a rule says of writing to a path.
type Verdict uint8

// The verdicts.
const (
	Unsaid Verdict = iota
	Allowed
	Asked
	Denied
)

// Writes are rules about writing in the folder, which never change.
type Writes interface {
	// Decide says what the rules say of the path, which is absolute, and why. Unsaid, and Allowed
	// if general is set (a rule for the whole folder), leave what is protected protected.
	Decide(path string) (v Verdict, general bool, why string)
	// Within reports whether a rule that denies or asks is about a name below the directory,
	// so that this cannot be renamed without a decision.
	Within(dir string) bool
}

// maxProtectAsks bounds the questions about protected files that wait at once.
const maxProtectAsks = 64

// protection is why an operation needs a decision, or may not be done.
type protection struct {
	entry string // relative to the folder: what an answer is for
	below bool   // the entry is a directory, and the answer is for what is in it
	path  string // that would be written to
	in    string // for people, before both: of a folder that is a git directory, which
	why   string // the rule; empty: what is protected in every folder
	deny  bool
}

// passes are the answers about entries in one epoch. It never changes.
type passes struct {
	epoch   uint64
	yes, no []string
}

// protectAsk is a question about an entry, and who waits for it.
type protectAsk struct {
	about   protection
	waiting []*request
	ask     *messages.Ask
}

// spot is a name of the folder: the names of its path, from the folder down.
type spot struct {
	names   []string
	parents []*fsbridge.Object // of each name
}

// depthMade is how deep most files are.
const depthMade = 12

// spotOf is where name is in dir; an empty name is dir itself, which may be a file of several names. ok is false if
// it has no name. Of directories the bridge's word is taken: to ask the host of each takes longer than most operations.
func spotOf(dir *fsbridge.Object, name string) (p spot, ok bool) {
	p = spot{make([]string, 0, depthMade), make([]*fsbridge.Object, 0, depthMade)}
	for depth := 0; dir != nil && depth < 4096; depth++ {
		if name != "" {
			p.names, p.parents = append(p.names, name), append(p.parents, dir)
		}
		if dir.Place == nil {
			break
		}
		if name == "" {
			dir, name, ok = dir.Place.Binding()
		} else {
			dir, name, ok = dir.Place.Known()
		}
		if !ok {
			break
		}
	}
	slices.Reverse(p.names)
	slices.Reverse(p.parents)
	return p, len(p.names) > 0
}

// touched are the places that op changes, and whether it puts something new at the last of them (of an exchange, at both).
func touched(op *fsbridge.Op) (at [2]spot, n int, puts bool) {
	add := func(dir *fsbridge.Object, name string) {
		if p, ok := spotOf(dir, name); ok {
			at[n] = p
			n++
		}
	}
	switch op.Kind {
	case fsbridge.OpRename:
		add(op.Dir, op.Name)
		add(op.NewDir, op.NewName)
		return at, n, true
	case fsbridge.OpLink:
		add(op.Node, "")
		add(op.Dir, op.Name)
		return at, n, true
	case fsbridge.OpTmpfile:
	case fsbridge.OpCreate, fsbridge.OpMkdir, fsbridge.OpMknod, fsbridge.OpSymlink:
		add(op.Dir, op.Name)
		return at, n, op.Kind != fsbridge.OpMkdir
	case fsbridge.OpUnlink, fsbridge.OpRmdir:
		add(op.Dir, op.Name)
	default:
		add(op.Node, "")
	}
	return at, n, false
}

// protected says whether op needs a decision because of what it writes to; nil: it does not. The
// folder's own list holds where no rule says anything. Somebody said yes to the allowed entries.
func (h *Hooks) protected(op *fsbridge.Op, epoch uint64, allowed []string) *protection {
	protect, writes := h.safe.Load().Protect && h.o.Entry != nil, h.writes.Load()
	if !protect && writes == nil || op.Standing || op.Name == "" && marked(op.Node, epoch) {
		return nil
	}
	at, n, puts := touched(op)
	for i := range n {
		both := op.Kind == fsbridge.OpRename && op.Flags&renameExchange != 0
		if p := h.protectedPlace(op, epoch, at[i], puts && (both || i == n-1), protect, writes); p != nil && (p.deny || !slices.Contains(allowed, p.entry)) && !h.passed(p, epoch) {
			if op.Name == "" && h.created(op.Node, epoch) {
				return nil
			}
			return p
		}
	}
	return nil
}

func (h *Hooks) protectedPlace(op *fsbridge.Op, epoch uint64, at spot, puts, protect bool, writes *Writes) *protection {
	if writes != nil {
		path := strings.Join(at.names, "/")
		v, general, why := (*writes).Decide(h.o.Directory + "/" + path)
		if v != Denied && op.Kind == fsbridge.OpRename && op.Node != nil && op.Node.Type == syscall.S_IFDIR && (*writes).Within(h.o.Directory+"/"+path) {
			v, why = Denied, "a rule is about a name below the directory"
		}
		switch {
		case v == Denied, v == Asked:
			return &protection{entry: path, path: path, why: why, deny: v == Denied}
		case v == Allowed && !general:
			return nil
		}
	}
	if !protect || op.Kind == fsbridge.OpMkdir {
		return nil
	}
	names := at.names
	if len(h.above) > 0 {
		names = slices.Concat(h.above, names)
	}
	from, to, ok := h.entry(op, names)
	if !ok || h.isNew(op, epoch, at, names, from, to, puts) {
		return nil
	}
	if to == from+1 && names[from] == gitDir {
		own := from == 0 && len(h.above) == 0 && op.Kind == fsbridge.OpRename // the folder's own repository is not moved away: so a new one is one where none was
		pointer := op.Name == "" && op.Node != nil && op.Node.Type == syscall.S_IFREG
		if !puts && !own && !pointer {
			return nil // it is not replaced, and no file that names another directory
		}
	}
	path := strings.Join(at.names, "/")
	if exempt(h.safe.Load().Exempt, path) {
		return nil
	}
	entry := names[min(len(h.above), to):to]
	p := &protection{entry: strings.Join(entry, "/"), below: to < len(names), path: path}
	if len(h.above) > 0 {
		p.in = strings.Join(h.above, "/") + "/"
	}
	return p
}

// entry finds what is protected of the place: by its names, by what git's configuration says that it runs, or, of a directory that is renamed, because such things lie in it.
func (h *Hooks) entry(op *fsbridge.Op, names []string) (from, to int, ok bool) {
	if from, to, ok = h.o.Entry(names); ok {
		return from, to, ok
	}
	moved := op.Kind == fsbridge.OpRename && (op.Node == nil || op.Node.Type == syscall.S_IFDIR || op.Flags&renameExchange != 0)
	if moved && h.o.Carries != nil {
		if from, ok = h.o.Carries(names); ok {
			return from, len(names), true
		}
	}
	targets := h.targets.Load()
	if targets == nil || len(h.above) > 0 {
		return 0, 0, false
	}
	for _, t := range *targets {
		switch n := min(len(t), len(names)); {
		case !slices.Equal(t[:n], names[:n]):
		case n == len(t):
			return 0, n, true
		case moved:
			return 0, n, true
		}
	}
	return 0, 0, false
}

// isNew reports whether what is written to is the step's own: a clone, an unpacked package, what git init or git worktree makes. Below the folder, removals are let through, too.
// A repository is new only if its git directory is, too, and one that is moved only if the step has made it.
func (h *Hooks) isNew(op *fsbridge.Op, epoch uint64, at spot, names []string, from, to int, puts bool) bool {
	made := func(i int) bool { // the directory that the name is in
		i -= len(h.above)
		return i >= 0 && i < len(at.parents) && h.created(at.parents[i], epoch)
	}
	git := names[from] == gitDir
	if git && to == from+4 && names[from+1] == "worktrees" && made(to-1) {
		return true
	}
	if from == 0 && len(h.above) == 0 { // the folder's own
		return git && to > 1 && made(1)
	}
	if from < len(h.above) {
		return false
	}
	if op.Kind == fsbridge.OpUnlink || op.Kind == fsbridge.OpRmdir {
		return true
	}
	if !made(from) {
		return false
	}
	switch {
	case git && to > from+1:
		return made(from + 1)
	case git && puts && (op.Kind == fsbridge.OpRename || op.Kind == fsbridge.OpLink):
		return op.Flags&renameExchange == 0 && h.created(op.Node, epoch)
	}
	return true
}

// gitDir may be made, but not be put there: what is in it would not have been asked about.
const gitDir = ".git"

// aboveOf are the names of a folder that is a git directory itself, or lies in one, from there on.
func aboveOf(folder string) []string {
	names := strings.Split(folder, "/")
	if i := slices.Index(names, gitDir); i >= 0 {
		return names[i:]
	}
	return nil
}

// passed reports whether the entry was allowed in this epoch. One that was refused is denied.
func (h *Hooks) passed(p *protection, epoch uint64) bool {
	if now := h.passes.Load(); now != nil && now.epoch == epoch {
		if slices.Contains(now.yes, p.entry) {
			return !p.deny
		}
		if slices.Contains(now.no, p.entry) {
			p.deny, p.why = true, ""
		}
	}
	return false
}

// pass is the actor's: it notes an answer.
func (h *Hooks) pass(entry string, allow bool) {
	next := &passes{epoch: h.guard.Epoch()}
	if old := h.passes.Load(); old != nil && old.epoch == next.epoch {
		next.yes, next.no = slices.Clone(old.yes), slices.Clone(old.no)
	}
	if allow {
		next.yes = append(next.yes, entry)
	} else {
		next.no = append(next.no, entry)
	}
	h.passes.Store(next)
}

// Forget takes an answer about an entry back, for the rest of the step. What was let through stays.
type Forget struct{ Entry string }

// forget is the actor's: it takes an answer back.
func (h *Hooks) forget(entry string) {
	old := h.passes.Load()
	if old == nil {
		return
	}
	other := func(e string) bool { return e == entry }
	h.passes.Store(&passes{
		epoch: old.epoch, yes: slices.DeleteFunc(slices.Clone(old.yes), other), no: slices.DeleteFunc(slices.Clone(old.no), other),
	})
}

// takeWrites reads the rules anew, and what git is told to run from the folder. That is done when a step begins: what is decided in it is decided by the same
// rules.
func (h *Hooks) takeWrites() {
	if safe := h.safe.Load(); h.o.Targets != nil && (safe == nil || safe.Protect) {
		t := h.o.Targets(h.o.Directory)
		h.targets.Store(&t)
	}
	if h.o.Writes == nil {
		return
	}
	if w := h.o.Writes(); w != nil {
		h.writes.Store(&w)
	} else {
		h.writes.Store(nil)
	}
}

// refuse tells of what a rule denied; a person's no is known.
func (h *Hooks) refuse(p *protection) {
	if p.why != "" && h.o.Events.Refused != nil {
		h.o.Events.Refused(p.path, p.why)
	}
}

// askProtected holds r until somebody has decided about its entry. Nothing else waits.
func (a *Actor) askProtected(r *request) {
	if p := r.protected; p.deny || a.h.passed(p, a.h.guard.Epoch()) || p.deny {
		a.settled(r, !p.deny)
		return
	}
	r.deadline.Store(a.h.o.Clock.Now().Add(a.h.safe.Load().Timeout + 2*a.h.o.ReplyDeadline).UnixNano())
	if r.held != nil {
		r.held(r.number)
	}
	for _, q := range a.protecting {
		if q.about.entry == r.protected.entry {
			q.waiting = append(q.waiting, r)
			return
		}
	}
	if len(a.protecting) >= maxProtectAsks {
		a.settled(r, false)
		return
	}
	a.token++
	q := &protectAsk{about: *r.protected, waiting: []*request{r}}
	q.ask = &messages.Ask{
		Token: a.token, Directory: a.h.o.Directory, Step: int64(a.open), Kind: messages.KindProtected, Count: 1,
		Paths: []string{r.protected.path}, Message: r.protected.question(int64(a.open)), Callers: r.callers, Answer: a.tell,
	}
	if as := a.h.assigned.Load(); as != nil {
		q.ask.Command = as.info.Command
	}
	a.protecting = append(a.protecting, q)
	a.h.o.Safeguard(q.ask)
}

func (p *protection) question(step int64) string {
	what := "which is protected: programs may run from it outside of the sandbox"
	switch {
	case p.why != "":
		what = "about which a rule asks"
	case p.below:
		what = "and " + texts.Quoted(p.in+p.entry) + " is protected: programs may run from what is in it outside of the sandbox"
	}
	return fmt.Sprintf("Step %d is about to change %s, %s. Awaiting confirmation.", step, texts.Quoted(p.in+p.path), what)
}

// settled lets r go on, or fails it: it alone, its step goes on.
func (a *Actor) settled(r *request, allow bool) {
	if !allow {
		r.reply.Fail(fsbridge.ErrDenied)
		return
	}
	r.protected = nil
	r.deadline.Store(a.h.o.Clock.Now().Add(a.h.o.ReplyDeadline).UnixNano())
	a.onRequest(r)
}

// onProtectAnswer reports whether the answer was about a protected entry.
func (a *Actor) onProtectAnswer(m *messages.Answer) bool {
	i := slices.IndexFunc(a.protecting, func(q *protectAsk) bool { return q.ask.Token == m.Token })
	if i < 0 {
		return false
	}
	q := a.protecting[i]
	a.protecting = slices.Delete(a.protecting, i, i+1)
	if m.Scope != "once" {
		a.h.pass(q.about.entry, m.Allow)
		if a.h.o.Remember != nil && !messages.Unattended(m.By) {
			a.h.o.Remember(q.about.entry, q.about.below, m)
		}
	}
	for _, r := range q.waiting {
		a.settled(r, m.Allow)
	}
	return true
}

// leaveProtected takes r back, since it will not happen.
func (a *Actor) leaveProtected(r *request) {
	for i, q := range a.protecting {
		q.waiting = slices.DeleteFunc(q.waiting, func(o *request) bool { return o == r })
		if len(q.waiting) == 0 {
			a.h.o.Safeguard(&messages.Withdraw{Directory: a.h.o.Directory, Token: q.ask.Token})
			a.protecting = slices.Delete(a.protecting, i, i+1)
			return
		}
	}
}

// endProtected fails all that wait for a decision about an entry.
func (a *Actor) endProtected(err error) {
	for _, q := range a.protecting {
		a.h.o.Safeguard(&messages.Withdraw{Directory: a.h.o.Directory, Token: q.ask.Token})
		for _, r := range q.waiting {
			r.reply.Fail(err)
		}
	}
	a.protecting = nil
}
