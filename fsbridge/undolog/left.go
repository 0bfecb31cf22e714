package undolog

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/apply"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/stamps"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// What an apply has left of a step (package apply says when) stays in the history, as a step of its own that
// changed only that: the step's directory, with a file that says which of its records still count. So an
// undo is always over, and nothing is dropped that may be wanted.

const (
	leftName = "left" // in the directory rollback
	maxLeft  = 256 << 20

	// Of the steps that are left of others: by an undo or a rollback, and by a redo.
	statusLeft      = "left"
	statusNotRedone = "left of a redo"
)

// leftOver is the file "left" in the directory rollback: what becomes of the directory that was applied.
type leftOver struct {
	ID    StepID     `json:"id"` // the step that it becomes
	Rest  store.Rest `json:"rest"`
	Left  []Left     `json:"left"`
	Size  int64      `json:"size"` // of the journal, which a rollback leaves with room at its end
	Entry Entry      `json:"entry"`
}

// ofOpen tells whether the task is a rollback of the step that was open.
func (t *task) ofOpen() bool { return t.Kind == taskAbort || t.Kind == taskRecover }

// writeLeft notes what is left of a task, so that finish keeps it. It may be called again.
func (l *Log) writeLeft(roll int, e *apply.Engine, dir *store.StepDir, t task) error {
	rest := e.Rest()
	if rest == nil || t.Kind == taskRestore { // a restore can be asked for again
		err := hostfs.UnlinkAt(roll, leftName)
		if errors.Is(err, posix.ENOENT) {
			err = nil
		}
		return err
	}
	id, err := l.ids.NextStep(TypeAPI)
	if err != nil {
		return err
	}
	was := store.EntryOf(&e.Layer().Rec.Step)
	if !t.ofOpen() {
		was = store.LoadEntry(dir, t.Step)
	}
	rest.Of = was.StepID
	if was.RestOf != 0 {
		rest.Of = was.RestOf
	} else {
		was.Command = fmt.Sprintf("left of step %d: %s", rest.Of, was.Command)
	}
	status := statusLeft
	if t.Kind == taskRedo || was.Status == statusNotRedone {
		status = statusNotRedone
	}
	o := leftOver{ID: id, Rest: *rest, Left: e.Left(), Size: e.Layer().Rec.Size, Entry: Entry{
		Seq: was.Seq, StepID: id, Type: TypeAPI, Command: was.Command, Argv: was.Argv, Dir: was.Dir,
		Status: status, StartedAt: l.now(), EndedAt: l.now(), RestOf: rest.Of, Left: l.fewLeft(e.Left()),
	}}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return store.WriteFile(roll, leftName, b)
}

// fewLeft is the beginning of a list, with what is there now.
func (l *Log) fewLeft(list []Left) []Left {
	list = slices.Clone(list[:min(len(list), MaxLeft)])
	for i := range list {
		if isChanged(list[i]) { // a barrier guards it
			list[i].Size = -1
			continue
		}
		fd, err := l.root.OpenPath(list[i].Path, posix.O_PATH|posix.O_NOFOLLOW)
		if err != nil {
			continue
		}
		if st, err := hostfs.StatFD(fd); err == nil {
			list[i].Size, list[i].Mtime = st.Size, st.Mtime
		}
		_ = hostfs.Close(fd)
	}
	return list
}

// isLeft tells whether what is at path, which is as st says, is as an undo has left it. That its attributes or
// its owner are others now is no edit: they stood in the way.
func (l *Log) isLeft(path string, st *hostfs.Stat) bool {
	for _, e := range l.stepEntries() {
		if st == nil {
			continue
		}
		if slices.ContainsFunc(e.Left, func(x Left) bool { return x.Path == path && x.Size == st.Size && x.Mtime == st.Mtime }) {
			return true
		}
	}
	return false
}

// endTarget moves the directory that a task has applied to where it belongs now: what is left of it stays a
// step. It may be called again.
func (l *Log) endTarget(roll int, t task, r route) error {
	b, err := hostfs.ReadSmall(roll, leftName, maxLeft)
	if errors.Is(err, posix.ENOENT) {
		return l.discardDir(l.at.Named(r.parent), r.name)
	}
	var o leftOver
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	if err == nil && o.ID <= 0 {
		err = fmt.Errorf("step %d", o.ID)
	}
	if err != nil {
		return fmt.Errorf("%w: what an undo has left: %w", ErrDamaged, err)
	}
	to, name := "steps", store.FormatStepID(o.ID)
	if t.Kind == taskRedo {
		to = "redo"
	}
	dir, err := l.at.OpenStep(r.parent, r.name)
	if errors.Is(err, posix.ENOENT) { // done before
		return l.relist(name, to)
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if t.ofOpen() {
		if err := cutJournal(dir.FD, o.Size); err != nil {
			return err
		}
	}
	if err := l.describeLeft(dir.FD, &o); err != nil {
		return err
	}
	ref := stamps.StepRef{ID: o.ID, Seq: o.Entry.Seq}
	if t.Kind == taskRedo { // what is done again, but for this, is there already: an undo of it would overwrite the edit
		ref.ID = t.Step
	}
	// Before the step is there, so that no kill makes an edit look like the step's own.
	if err := l.stamps.Edited(ref, changedMeanwhile(o.Left)); err != nil {
		return err
	}
	if err := hostfs.RenameAt(l.at.Named(r.parent), r.name, l.at.Named(to), name, posix.RENAME_NOREPLACE); err != nil {
		return err
	}
	return l.relist(name, to)
}

// describeLeft makes a step directory that of a step which only changed what is left.
func (l *Log) describeLeft(dirfd int, o *leftOver) (err error) {
	var paths []Affected
	for _, x := range o.Left {
		a := Affected{Path: x.Path, ExistedBefore: true, ExistsAfter: true, Change: "metadata", Type: "file"}
		switch x.What {
		case "path":
			a.Change = "replaced"
		case "content":
			a.Change = "modified"
		}
		if n := len(paths); n == 0 || paths[n-1].Path != a.Path {
			paths = append(paths, a)
		}
	}
	o.Entry.Affect(paths)
	if o.Entry.StoredBytes, err = store.DiskUsage(dirfd); err != nil {
		return err
	}
	return errors.Join(store.WriteRest(dirfd, store.RestName, &o.Rest), store.WritePaths(dirfd, paths), store.WriteSummary(dirfd, o.Entry))
}

// nothingDone is the outcome of a task of which nothing can be done. A step remembers what was in the way, so that
// to lift it is no edit.
func (l *Log) nothingDone(e *apply.Engine, t task) *outcome {
	if t.Kind == taskUndo {
		if err := l.remember(e, t); err != nil {
			l.log.Warn("what an undo has left is not noted", "step_id", t.Step, "err", err)
		}
	}
	return &outcome{step: e.Layer().Rec.Step, left: e.Left(), nothing: true, warnings: e.Warnings}
}

func (l *Log) remember(e *apply.Engine, t task) error {
	dir := e.Layer().Dir
	entry := store.LoadEntry(dir, t.Step)
	if entry.Damaged != "" {
		return nil
	}
	entry.Left = l.fewLeft(e.Left())
	if err := store.WriteSummary(dir.FD, entry); err != nil {
		return err
	}
	return l.relist(t.Name, "steps")
}

// hopeless tells whether the plan of e is empty because everything that there is to do is left. With force, what
// has not been tried before ends all the same, so that what is older can be reached.
func hopeless(e *apply.Engine, t task, force bool) bool {
	if t.ofOpen() || !e.NothingToDo() || e.Rest() == nil {
		return false
	}
	rest, err := store.ReadRest(e.Layer().Dir.FD)
	return !force || err == nil && rest != nil
}

// leave takes what was left out of the paths that were put back.
func (o *outcome) leave(list []Left) {
	o.left = list
	not := map[string]bool{}
	for _, x := range list {
		if x.What == "path" || x.What == "content" {
			not[x.Path] = true
		}
	}
	o.count = max(0, o.count-len(not))
	o.paths = slices.DeleteFunc(o.paths, func(a Affected) bool { return not[a.Path] })
}

// addLeft adds what was left to a result.
func (r *ApplyResult) addLeft(list []Left) {
	r.LeftCount += len(list)
	r.Left = append(r.Left, list[:min(len(list), max(0, MaxLeft-len(r.Left)))]...)
	if len(r.crossed) == 0 {
		return
	}
	stays := make(map[string]bool, len(list))
	for _, x := range list {
		stays[x.Path] = stays[x.Path] || x.What == "path" || x.What == "content"
	}
	r.crossed = slices.DeleteFunc(r.crossed, func(path string) bool { return stays[path] })
}

// tellCrossed warns of what force has overwritten, which is not what was left.
func (r *ApplyResult) tellCrossed() {
	slices.Sort(r.crossed)
	if n := len(slices.Compact(r.crossed)); n > 0 {
		r.Warnings = slices.Insert(r.Warnings, 0, fmt.Sprintf("%d path(s) that were changed outside the sandbox were overwritten", n))
	}
	r.crossed = nil
}

// foretellLeft adds what a task would have to leave, as far as that can be seen.
func (l *Log) foretellLeft(dir *store.StepDir, t task, force bool, res *ApplyResult) {
	e, err := l.newEngine(layer.Read(dir), t, force)
	if err != nil {
		return // the undo itself will say so
	}
	defer e.Close()
	e.Looking = true
	l.mindEdits(e, t, force)
	if e.Decide() == nil {
		entry := store.LoadEntry(dir, t.Step)
		res.addLeft(e.Left())
		if t.Kind == taskUndo {
			res.addLeft(entry.StillNotKept(e.Left()))
		}
	}
}

// leftTexts says what was left, for people.
func leftTexts(list []Left) (out []string) {
	for _, x := range list[:min(len(list), 10)] {
		out = append(out, fmt.Sprintf("left as it is: %q (%s): %s", x.Path, x.What, x.Reason))
	}
	if n := len(list) - len(out); n > 0 {
		out = append(out, fmt.Sprintf("and %d more", n))
	}
	return out
}

// unrecorded is what the undo of an unprotected step leaves, besides what it names.
var unrecorded = []Left{{Path: ".", What: "path", Reason: "the step was not protected from some moment on: what it changed after that was not recorded, and is left"}}

// notDone is the error of steps that are undone all or none, where nothing of one can be.
func notDone(left []Left) error {
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("nothing of it can be put back; the first path is %q: %s", left[0].Path, left[0].Reason)
}

// Inspect looks at the undo directory dir. It changes nothing, waits for nobody, and gets along with whatever it
// finds: what cannot be read counts as damaged.
func Inspect(dir string) (s State, err error) {
	r, err := hostfs.OpenRoot(dir)
	if errors.Is(err, posix.ENOENT) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer r.Close()
	if _, err := hostfs.StatAt(r.FD(), "version"); err != nil {
		return s, nil
	}
	s.Exists, s.InUse = true, inUse(r.FD())
	s.inspectSteps(r.FD())
	s.inspectWal(r.FD())
	if roll, err := hostfs.OpenDirAt(r.FD(), rollbackName); err == nil {
		s.Half = "undo"
		if t, err := readPlan(roll); err == nil {
			s.Half, s.HalfStep = string(t.Kind), t.Step
		}
		_ = hostfs.Close(roll)
	} else if _, err := hostfs.StatAt(r.FD(), togetherName); err == nil {
		s.Half = "undo"
	}
	return s, nil
}

// inUse tells whether a process has the log open.
func inUse(dirfd int) bool {
	fd, err := hostfs.OpenAt(dirfd, "lock", posix.O_RDONLY|posix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer hostfs.Close(fd)
	return errors.Is(posix.Flock(fd, posix.LOCK_SH|posix.LOCK_NB), posix.EWOULDBLOCK)
}

func (s *State) inspectSteps(dirfd int) {
	for _, parent := range []string{"steps", "redo"} {
		fd, err := hostfs.OpenDirAt(dirfd, parent)
		if err != nil {
			continue
		}
		names, _ := hostfs.ReadDirAt(fd)
		for _, x := range names {
			id, err := store.ParseStepID(x.Name)
			if err != nil {
				continue
			}
			e := Entry{Damaged: "cannot be opened"}
			if d, err := hostfs.OpenDirAt(fd, x.Name); err == nil {
				dir := store.NewStepDir(d)
				e = store.LoadEntry(dir, id)
				_ = dir.Close()
			}
			s.Bytes += e.StoredBytes
			if parent == "redo" {
				s.Redo++
				continue
			}
			s.Steps++
			switch {
			case e.Damaged != "":
				s.Damaged = append(s.Damaged, id)
			case e.RestOf != 0:
				s.Left = append(s.Left, id)
			}
		}
		_ = hostfs.Close(fd)
	}
}

func (s *State) inspectWal(dirfd int) {
	wal, err := hostfs.OpenDirAt(dirfd, "wal")
	if err != nil {
		return
	}
	defer hostfs.Close(wal)
	names, _ := hostfs.ReadDirAt(wal)
	for _, x := range names {
		if strings.HasPrefix(x.Name, "damaged.") {
			s.Aside++
		}
	}
	d, err := hostfs.OpenDirAt(wal, store.OpenName)
	if err != nil {
		return
	}
	defer hostfs.Close(d)
	s.Open, s.Command = -1, ""
	if rec, err := format.ReadStep(d); err == nil {
		s.Open, s.Command = rec.ID, rec.Command
	}
}

// What somebody changed while a task was interrupted is left as it is when the task goes on: its sign of life tells
// what that is, and the file "foreign" in the directory rollback remembers it, as the next run renews the sign.

const (
	foreignName = "foreign"
	maxForeign  = 64 << 20
)

// decideAgain plans the rest of the task in the directory behind roll, which was interrupted.
func (l *Log) decideAgain(e *apply.Engine, roll int) error {
	death, err := store.ReadAlive(roll)
	if err != nil {
		return err
	}
	known, err := readForeign(roll)
	if err != nil {
		return err
	}
	before := map[hostfs.ID]bool{}
	for _, id := range known {
		before[id] = true
	}
	e.Foreign = func(st *hostfs.Stat) bool { return before[st.ID] || death.Foreign(st) }
	if err := e.Decide(); err != nil {
		return err
	}
	for _, id := range e.ForeignIDs {
		if !before[id] {
			known = append(known, id)
		}
	}
	if len(known) > len(before) {
		if err := writeForeign(roll, known); err != nil {
			return err
		}
	}
	if e.Sign, err = store.CreateAlive(roll); err != nil {
		l.log.Warn("no sign of life of an undo", "err", err)
	}
	return nil
}

// writeForeign notes inodes that somebody else has changed.
func writeForeign(dirfd int, ids []hostfs.ID) error {
	if len(ids) == 0 {
		return nil
	}
	b, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	return store.WriteFile(dirfd, foreignName, b)
}

func readForeign(roll int) (ids []hostfs.ID, err error) {
	b, err := hostfs.ReadSmall(roll, foreignName, maxForeign)
	if errors.Is(err, posix.ENOENT) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &ids)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: what was changed meanwhile: %w", ErrDamaged, err)
	}
	return ids, nil
}

// leftEdits are what an undo or a redo of steps has left before because somebody had changed it. Who does them again, or the rest, is asked.
func (l *Log) leftEdits(chosen []*stepEntry) (out []Barrier) {
	add := func(e *stepEntry) {
		if paths := changedMeanwhile(e.Left); len(paths) > 0 {
			out = append(out, Barrier{After: e.StepID, At: e.EndedAt, Paths: paths})
		}
	}
	for _, e := range chosen {
		if e.Status == statusNotRedone {
			add(e)
		}
	}
	for _, e := range l.stepEntries() {
		if e.RestOf != 0 && slices.ContainsFunc(chosen, func(c *stepEntry) bool { return c.StepID == e.RestOf }) {
			add(e)
		}
	}
	return out
}

// isChanged tells whether somebody's change is why something was left, there or in another place.
func isChanged(x Left) bool {
	return strings.HasSuffix(x.Reason, apply.Changed) || strings.HasSuffix(x.Reason, apply.ChangedOpen)
}

// changedMeanwhile are the paths that were left because somebody changed them while the task was interrupted.
func changedMeanwhile(list []Left) (paths []string) {
	for _, x := range list {
		if isChanged(x) {
			paths = append(paths, x.Path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
