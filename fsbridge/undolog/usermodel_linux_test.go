//go:build linux && faults

package undolog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// userModel is a folder in which commands run, are killed, undone and done again while a user edits it.
type userModel struct {
	*user
	k     modelKill
	trees map[StepID][2]*treesnap.Snapshot // before and after a step in which the user edited nothing
	sums  map[string]bool                  // of contents that files have had
	taken map[string]bool                  // contents of the user that a step has overwritten or removed: a redo may do so, too
	mixed bool                             // the user has edited while a command ran, so that they may have made contents together
	*tally
}

// noteTaken remembers what the log has now.
func (m *userModel) noteTaken() {
	now := m.scan()
	for c := range m.need {
		m.taken[c] = m.taken[c] || now.log[c] || now.redo[c]
	}
}

// note remembers what files hold now, and what the log has.
func (m *userModel) note() {
	m.noteTaken()
	for _, e := range m.w.snapshot().Entries {
		m.sums[e.Hash] = true
	}
}

// whole makes sure that no file holds what no file has ever held, as it would if what it was and an edit were mixed.
func (m *userModel) whole(what string) {
	m.t.Helper()
	if m.mixed {
		return
	}
	for path, e := range m.w.snapshot().Entries {
		if !m.sums[e.Hash] {
			m.t.Fatalf("%s made a content that was never there: %s %+v", what, path, e)
		}
	}
}

// kept makes sure that what the user has written and the log does not know is still in the folder, after what nobody has forced.
func (m *userModel) kept(what string, before places) {
	m.t.Helper()
	now := m.scan()
	for c := range m.need {
		if before.folder[c] && !m.taken[c] && !m.loose[c] && !now.folder[c] {
			m.t.Fatalf("%s overwrote %s, and did not ask", what, c)
		}
	}
}

// tally is what happened in all runs.
type tally struct{ begun, ended, kills, refused, done, partly int }

// enough tells whether there were as many runs as UNDOLOG_USER_RUNS says, 40 without: 2,000 take some minutes. What
// failed is tried again and again.
func (a *tally) enough(t *rapid.T) bool {
	most := 40
	if v := os.Getenv("UNDOLOG_USER_RUNS"); v != "" {
		var err error
		if most, err = strconv.Atoi(v); err != nil {
			t.Fatalf("%v", err)
		}
	}
	return a.ended >= most && a.begun == a.ended
}

// TestU1ModelWithUser has random commands, undos, redos and restores, and kills of them, while a user writes into the
// folder at any moment. What comes of each is exact, or refused with nothing changed, or done but for what is named; and
// nothing that the user wrote is lost.
func TestU1ModelWithUser(t *testing.T) { testUserModel(t, testDir(t)) }

func testUserModel(t *testing.T, base string) {
	var a tally
	rapid.Check(t, func(t *rapid.T) {
		if a.enough(t) {
			return
		}
		a.begun++
		m := &userModel{trees: map[StepID][2]*treesnap.Snapshot{}, sums: map[string]bool{}, taken: map[string]bool{}, tally: &a}
		m.k = modelKill{Base: fmt.Sprintf("%s/%d", base, a.begun), Edited: true}
		m.k.Inline = rapid.SampledFrom([]int64{64, 64 << 10}).Draw(t, "inline")
		defer removeForTest(m.k.Base)
		m.user = &user{t: t, w: newWorld(t, m.k.Base, m.k.options()), need: map[string]bool{}, loose: map[string]bool{}, during: map[string]bool{}}
		m.w.small = true
		defer func() { m.w.close() }()
		for range rapid.IntRange(3, 12).Draw(t, "rounds") {
			m.round()
		}
		m.end()
		a.ended++
	})
	t.Logf("%d runs: %d kills, %d refused, %d done, %d of them in part", a.ended, a.kills, a.refused, a.done, a.partly)
}

func (m *userModel) round() {
	if m.w.log.rollingBack() || m.w.log.unrecovered() {
		m.afterKill()
	}
	m.note()
	defer m.note()
	switch rapid.SampledFrom([]string{"step", "step", "step", "mark", "edit", "edit", "noticed", "travel", "travel", "restore", "kill", "kill"}).Draw(m.t, "round") {
	case "step":
		m.step()
	case "edit":
		if m.w.log.unrecovered() {
			m.patient()
		}
		m.edit(false)
	case "noticed":
		out, err := m.w.log.External(context.Background(), []string{genPath(m.t, m.w), genPath(m.t, m.w), genPath(m.t, m.w)}, Inside{})
		m.t.Logf("DID notice %v, %v", out, err)
	case "travel":
		m.travel(false)
	case "restore":
		m.restore()
	case "mark":
		if err := m.w.log.Mark(fmt.Sprint("m", m.begun, "-", len(m.w.log.Marks()))); err != nil {
			m.t.Logf("mark: %v", err)
		}
	case "kill":
		m.kill()
	}
}

// afterKill is what happens between a kill and the next command.
func (m *userModel) afterKill() {
	// For ten milliseconds an undo that was killed takes what it changes for its own.
	running := rapid.IntRange(0, 3).Draw(m.t, "at once") == 0 && !m.w.log.rollingBack()
	if !running {
		m.patient()
	}
	for range rapid.SampledFrom([]int{0, 1, 1, 2, 4}).Draw(m.t, "edits after a kill") {
		m.mixed = m.mixed || running
		m.edit(running)
		m.note()
	}
	if rapid.Bool().Draw(m.t, "look") {
		before := m.w.snapshot()
		_, err := m.w.log.History()
		m.w.ok(err)
		treesnap.Same(m.t, "looked at", before, m.w.snapshot())
	}
	if rapid.IntRange(0, 3).Draw(m.t, "no command between") > 0 {
		m.recover()
	}
}

// recover is what each run does first.
func (m *userModel) recover() {
	before, tree := m.scan(), m.w.snapshot()
	r, err := m.w.log.Recover(context.Background())
	m.w.NewEpoch()
	m.w.Forget()
	if err != nil {
		m.t.Fatalf("recover: %v", err)
	}
	m.t.Logf("DID recover: %+v", r)
	m.lost("a recovery", before, false, false)
	if r != nil && r.Kept && !r.CompletedRollback {
		treesnap.Same(m.t, "kept", tree, m.w.snapshot())
	}
}

// step runs a command; it may be killed.
func (m *userModel) step() {
	m.recoverFirst()
	before, clean := m.w.snapshot(), true
	where := m.scan()
	m.w.begin(m.w.log.NextID(TypeCommand))
	m.during = map[string]bool{}
	for range rapid.IntRange(1, 8).Draw(m.t, "ops") {
		if rapid.IntRange(0, 7).Draw(m.t, "meanwhile") == 0 {
			m.lost("a step", where, false, true)
			m.mixed = true
			m.edit(true)
			where, clean = m.scan(), false
		}
		randomOp(m.t, m.w)
	}
	m.lost("a step", where, false, true)
	where = m.scan()
	if rapid.IntRange(0, 3).Draw(m.t, "killed") == 0 {
		m.t.Logf("DID kill the step")
		m.kills++
		m.reopen()
		m.lost("the kill of a step", where, false, false)
		return
	}
	e := m.w.commit()
	m.lost("the end of a step", where, false, false)
	if e != nil {
		m.t.Logf("DID step %d", e.StepID)
		if clean {
			m.trees[e.StepID] = [2]*treesnap.Snapshot{before, m.w.snapshot()}
		}
	}
}

// reopen has the log opened by somebody else.
func (m *userModel) reopen() {
	for _, h := range m.w.held {
		_ = h.Close()
	}
	m.w.held = nil
	m.w.log.takeOpen()
	m.noteTaken()
	m.w.ok(m.w.log.Close())
	m.w.opts.Looks = rapid.Bool().Draw(m.t, "looks")
	m.w.openLog()
	m.w.NewEpoch()
	m.w.Forget()
}

func (m *userModel) recoverFirst() {
	if m.w.log.unrecovered() {
		m.recover()
	}
}

// travel undoes or does again.
func (m *userModel) travel(force bool) {
	kind := rapid.SampledFrom([]string{"undo", "undo", "redo"}).Draw(m.t, "kind")
	o := UndoOptions{Count: rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(m.t, "count"), Force: force || rapid.IntRange(0, 4).Draw(m.t, "force") == 0}
	if rapid.IntRange(0, 2).Draw(m.t, "together") == 0 {
		o = m.together(kind, o)
	}
	pending := m.w.log.unrecovered()
	before, tree := m.scan(), m.w.snapshot()
	f := m.w.log.Undo
	if kind == "redo" {
		f = m.w.log.Redo
	}
	res, err := f(context.Background(), o)
	m.w.NewEpoch()
	m.w.Forget()
	m.t.Logf("DID %s %+v: %s, %v", kind, o, resultText(res), err)
	m.lost(kind, before, o.Force, false)
	m.whole(kind)
	if err == nil && !o.Force && !pending {
		m.kept(kind, before)
	}
	m.judge(kind, res, err, tree, pending, o)
}

// together has all newest steps be undone, or done again, at once.
func (m *userModel) together(kind string, o UndoOptions) UndoOptions {
	if marks := m.w.log.Marks(); kind == "undo" && len(marks) > 0 {
		o.To = marks[rapid.IntRange(0, len(marks)-1).Draw(m.t, "mark")].Name
	}
	return o
}

func resultText(r *ApplyResult) string {
	if r == nil {
		return "nothing"
	}
	var ids []StepID
	for _, s := range r.Steps {
		ids = append(ids, s.StepID)
	}
	return fmt.Sprintf("steps %v, left %v, warnings %v", ids, r.Left, r.Warnings)
}

// judge compares the folder with what an undo or a redo has to make of it.
func (m *userModel) judge(what string, res *ApplyResult, err error, tree *treesnap.Snapshot, pending bool, o UndoOptions) {
	m.t.Helper()
	if o.Force && res != nil { // what was taken by force comes back, and not what the step had made
		for _, s := range res.Steps {
			delete(m.trees, s.StepID)
		}
	}
	if err != nil {
		known := refused(err) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || what == "restore" && errors.Is(err, ErrEdited)
		if !known {
			m.t.Fatalf("%s: %v", what, err)
		}
		if !pending && (res == nil || len(res.Steps) == 0) {
			treesnap.Same(m.t, "refused "+what, tree, m.w.snapshot())
		}
		m.refused++
		return
	}
	m.done++
	if res.LeftCount > 0 {
		m.partly++
	}
	if pending || res.LeftCount > 0 || o.Force {
		return
	}
	now := m.w.snapshot()
	for i := len(res.Steps) - 1; i >= 0; i-- { // what was applied last counts
		for path, want := range m.steps(res, i, what) {
			got := now.Entries[path]
			if got.Links = want.Links; !reflect.DeepEqual(got, want) {
				if got.Group = want.Group; reflect.DeepEqual(got, want) {
					continue // only which names are one inode differs
				}
				m.t.Fatalf("%s of step %d: %s\n  want %+v\n  got  %+v", what, res.Steps[i].StepID, path, want, got)
			}
			delete(now.Entries, path)
		}
		if i == len(res.Steps)-1 && len(res.Steps) > 1 {
			return // the others meet paths that are changed again
		}
	}
}

// steps are the paths that the i-th step of a result changes, and what they are like then.
func (m *userModel) steps(res *ApplyResult, i int, what string) map[string]treesnap.Entry {
	trees, ok := m.trees[res.Steps[i].StepID]
	if !ok {
		return nil
	}
	list := map[string]treesnap.Entry{}
	was, is := trees[1], trees[0]
	if what == "redo" {
		was, is = is, was
	}
	for p, e := range is.Entries {
		if was.Line(p) != is.Line(p) && !e.Type.IsDir() {
			list[p] = e
		}
	}
	return list
}

func (m *userModel) restore() {
	pending := m.w.log.unrecovered()
	steps := m.w.log.seenEntries()
	if len(steps) == 0 {
		return
	}
	o := RestoreOptions{Path: genPath(m.t, m.w), Step: steps[rapid.IntRange(0, len(steps)-1).Draw(m.t, "to")].StepID}
	before, tree := m.scan(), m.w.snapshot()
	res, err := m.w.log.Restore(context.Background(), o)
	m.w.NewEpoch()
	m.w.Forget()
	m.t.Logf("DID restore %+v: %s, %v", o, resultText(res), err)
	m.lost("restore", before, false, true)
	m.whole("restore")
	if err == nil && !pending {
		m.kept("restore", before)
	}
	m.judge("restore", res, err, tree, pending, UndoOptions{Force: true})
}

// kill interrupts something at a random point.
func (m *userModel) kill() {
	m.k.Kind = rapid.SampledFrom([]string{"undo", "undo", "redo", "restore", "recover"}).Draw(m.t, "killed")
	m.k.Count, m.k.To = rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(m.t, "count"), ""
	if m.k.Kind == "undo" {
		m.k.To = m.together("undo", UndoOptions{}).To
	}
	if steps := m.w.log.seenEntries(); len(steps) > 0 {
		m.k.Step = steps[rapid.IntRange(0, len(steps)-1).Draw(m.t, "to")].StepID
	}
	m.k.Path = genPath(m.t, m.w)
	before := m.scan()
	if passage := rapid.IntRange(1, 40).Draw(m.t, "passage"); rapid.IntRange(0, 3).Draw(m.t, "really") == 0 {
		m.killProcess(passage)
	} else {
		m.interrupt(passage)
	}
	m.kills++
	m.lost("a killed "+m.k.Kind, before, false, m.k.Kind == "restore")
}

// interrupt has the operation fail in the middle, and the log closed: what a kill leaves, in a tenth of the time.
func (m *userModel) interrupt(passage int) {
	m.w.ok(fault.Arm(fmt.Sprintf("err:*:%d:EIO", passage)))
	err := m.k.do(context.Background(), m.w.log)
	m.w.ok(fault.Arm(""))
	m.t.Logf("DID interrupt %s %d %s %d: %v", m.k.Kind, m.k.Count, m.k.Path, m.k.Step, err)
	m.reopen()
}

// killProcess has the operation done by a process that is killed.
func (m *userModel) killProcess(passage int) {
	m.k.Fault = fmt.Sprintf("kill:*:%d", passage)
	m.w.close()
	m.k.run(m.t)
	m.w = newWorld(m.t, m.k.Base, m.k.options())
	m.w.small = true
}

// end goes back to the beginning and forth again: all of the user's contents stay somewhere.
func (m *userModel) end() {
	m.recoverFirst()
	ctx := context.Background()
	for range 40 {
		before := m.scan()
		_, err := m.w.log.Undo(ctx, UndoOptions{Force: true})
		m.lost("the last undos", before, true, false)
		m.whole("the last undos")
		if errors.Is(err, ErrNothing) {
			break
		}
		if err != nil {
			m.t.Fatalf("the last undos: %v", err)
		}
	}
	for range 40 {
		before := m.scan()
		_, err := m.w.log.Redo(ctx, UndoOptions{Force: true})
		m.lost("the last redos", before, true, false)
		m.whole("the last redos")
		if errors.Is(err, ErrNoRedo) {
			break
		}
		if err != nil {
			m.t.Fatalf("the last redos: %v", err)
		}
	}
}
