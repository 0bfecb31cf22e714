package undolog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

const (
	togetherName = "together" // in the undo directory
	maxTogether  = 1 << 20    // its bytes
)

// together is the file of that name: steps that are undone, or done again, all or none.
// It appears before the first of their transactions and goes after the last one, so that a
// kill between two of them leaves it: then a recovery does the rest.
type together struct {
	Kind  taskKind `json:"kind"`  // undo or redo
	Names []string `json:"names"` // of the step directories, in the order in which they are applied
	// Back: one of them could not be applied, and those before it are taken back.
	Back bool `json:"back,omitempty"`
}

// decodeTogether trusts nothing in b.
func decodeTogether(b []byte) (t together, err error) {
	if err := json.Unmarshal(b, &t); err != nil {
		return t, err
	}
	if t.Kind != taskUndo && t.Kind != taskRedo {
		return t, fmt.Errorf("unknown kind %q", t.Kind)
	}
	for _, name := range t.Names {
		if _, err := store.ParseStepID(name); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (l *Log) writeTogether(t together) error {
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if len(b) > maxTogether {
		return fmt.Errorf("%d steps are too many for one go; take some of them first", len(t.Names))
	}
	if err := store.WriteFile(l.dir.FD(), togetherName, b); err != nil {
		return err
	}
	if l.o.Durability == DurabilityPower {
		return posix.Syncfs(l.dir.FD())
	}
	return nil
}

func (l *Log) dropTogether() error {
	if err := fault.Point("together.end"); err != nil {
		return err
	}
	return l.discardDir(l.dir.FD(), togetherName)
}

// travelTogether applies steps, the last one first, all or none.
func (l *Log) travelTogether(ctx context.Context, chosen []*stepEntry, kind taskKind, o UndoOptions, res *ApplyResult) error {
	if err := l.admit(ctx, chosen, kind, o, res, nil); err != nil {
		return err
	}
	t := together{Kind: kind}
	for _, s := range slices.Backward(chosen) {
		t.Names = append(t.Names, s.name)
	}
	if err := l.writeTogether(t); err != nil {
		return err
	}
	return l.carryTogether(context.WithoutCancel(ctx), t, o.Force, travelling(o.Progress, chosen), res)
}

// carryTogether does what is left of t, which way tells of, or takes back what was done of it. If a
// transaction was interrupted, t stays for a recovery.
func (l *Log) carryTogether(ctx context.Context, t together, force bool, way *journey, res *ApplyResult) error {
	err := l.applyTogether(ctx, t, force, way, res)
	if err != nil && l.interrupted() {
		return err
	}
	if err != nil && !t.Back {
		t.Back = true
		*res = ApplyResult{Changes: fsbridge.Changes{All: true}, Warnings: res.Warnings}
		if werr := l.writeTogether(t); werr != nil {
			return errors.Join(err, werr)
		}
		if back := l.applyTogether(ctx, t, true, &journey{}, &ApplyResult{}); back != nil {
			err = errors.Join(err, fmt.Errorf("what was done before can not be taken back: %w", back))
			if l.interrupted() {
				return err
			}
			l.warn(Warning{Code: WarnDamaged, Message: "some steps that belong together are undone, and others are not: " + err.Error()})
		}
	}
	return errors.Join(err, l.dropTogether())
}

// direction is what is done with steps of t now, and with which, in this order.
func (t together) direction() (kind taskKind, names []string) {
	kind, names = t.Kind, slices.Clone(t.Names)
	if t.Back {
		slices.Reverse(names)
		kind = map[taskKind]taskKind{taskUndo: taskRedo, taskRedo: taskUndo}[kind]
	}
	return kind, names
}

// waiting returns the step of that name if it can be undone, or done again; else nil.
func (l *Log) waiting(kind taskKind, name string) *stepEntry {
	from := l.stepEntries()
	if kind == taskRedo {
		from = l.redoEntries()
	}
	if i := slices.IndexFunc(from, func(e *stepEntry) bool { return e.name == name }); i >= 0 {
		return from[i]
	}
	return nil
}

// applyTogether applies those steps of t that are not yet.
func (l *Log) applyTogether(ctx context.Context, t together, force bool, way *journey, res *ApplyResult) error {
	kind, names := t.direction()
	for _, name := range names {
		s := l.waiting(kind, name)
		if s == nil {
			continue
		}
		if err := fault.Point("together.next"); err != nil {
			return err
		}
		out, err := l.transact(ctx, task{Kind: kind, Step: s.StepID, Name: s.name}, transactOptions{force: force, progress: way.step(s)})
		if err == nil && out.nothing {
			err = notDone(out.left)
		}
		if err != nil {
			return fmt.Errorf("%s step %d: %w", kind, s.StepID, err)
		}
		res.add(s.Entry, out)
	}
	return nil
}

// editedBetween returns the steps of t that are still to be done, and what somebody has changed of them, or of before, since t was interrupted.
func (l *Log) editedBetween(ctx context.Context, t together, before *finished) (left []StepID, paths []string, err error) {
	kind, names := t.direction()
	var rest []*stepEntry
	for _, name := range slices.Backward(names) {
		if s := l.waiting(kind, name); s != nil {
			rest, left = append(rest, s), append(left, s.StepID)
		}
	}
	barriers, err := l.crossing(ctx, rest, kind, nil)
	for _, b := range barriers {
		paths = append(paths, b.Paths...)
	}
	if before != nil {
		paths = append(paths, changedMeanwhile(before.left)...)
	}
	slices.Sort(paths)
	return left, slices.Compact(paths), err
}

// resumeTogether completes what was to be done together. before is the transaction that was
// completed first, or nil. The result says what was done, or is before. If somebody has changed what the rest is about,
// each of these steps is left to whoever asks for it.
func (l *Log) resumeTogether(ctx context.Context, before *finished) (*finished, error) {
	b, err := hostfs.ReadSmall(l.dir.FD(), togetherName, maxTogether)
	if errors.Is(err, posix.ENOENT) {
		return before, nil
	}
	var t together
	if err == nil {
		t, err = decodeTogether(b)
	}
	if err != nil { // each transaction is whole
		l.warn(Warning{Code: WarnDamaged, Message: "steps that belong together may be undone in part: " + err.Error()})
		return before, l.dropTogether()
	}
	left, edited, err := l.editedBetween(ctx, t, before)
	if err != nil {
		return before, err
	}
	if len(left) > 0 && len(edited) > 0 {
		l.warn(Warning{Code: WarnExternal, Steps: left, Paths: edited[:min(len(edited), HistoryPaths)], Message: fmt.Sprintf(
			"an interrupted %s of several steps is not completed: %q was changed from outside since; steps that are left: %v. 'sandbox undo' or 'sandbox redo' goes on, and asks first", t.Kind, edited[0], left)})
		return before, l.dropTogether()
	}
	res := &ApplyResult{}
	if before != nil {
		res.add(Entry{StepID: before.Step}, before.outcome)
	}
	err = l.carryTogether(ctx, t, true, &journey{}, res)
	f := &finished{task: task{Kind: t.Kind}, together: &t, outcome: &outcome{
		changes: fsbridge.Changes{All: true}, paths: res.Paths, count: res.PathCount, warnings: res.Warnings, left: res.Left,
	}}
	return f, err
}

// completed adds what a recovery has done of an undo or a redo that is asked for
// again. It returns how many of the steps are left to do.
func (res *ApplyResult) completed(before *finished, kind taskKind, count int) (left int) {
	switch {
	case before == nil || before.Kind != kind:
		return count
	case before.together == nil:
		res.add(Entry{StepID: before.Step}, before.outcome)
		return count - 1
	case before.together.Back:
		return count
	}
	res.add(Entry{}, before.outcome)
	res.Steps = nil
	for _, name := range before.together.Names {
		if id, err := store.ParseStepID(name); err == nil {
			res.Steps = append(res.Steps, Entry{StepID: id})
		}
	}
	return 0
}
