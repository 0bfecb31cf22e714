package undolog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Restore brings one path, with everything below it, back to what it was when
// step o.Step began, by a step of its own (type api) that can be undone. A
// path that did not exist then is removed. It returns ErrNoStep, ErrBusy while
// a step is open, ErrUnprotected or ErrDamaged if a step in between cannot be
// looked through, and a *BarrierError if somebody outside has changed the path
// since; o.Force overrides the last. An empty result says that the path is as
// it was.
func (l *Log) Restore(ctx context.Context, o RestoreOptions) (*ApplyResult, error) {
	parts, err := hostfs.SplitPath(o.Path)
	if err != nil {
		return nil, err
	}
	defer l.still()()
	if o.DryRun && l.unrecovered() {
		return nil, errInterrupted
	}
	_, before, err := l.idle(ctx)
	if err != nil {
		return l.interrupted(nil), err
	}
	res, err := l.restore(ctx, parts, o)
	if before != nil {
		if res == nil {
			res = &ApplyResult{}
		}
		res.Changes = before.changes
	}
	return res, err
}

// restore is Restore in a log that is idle.
func (l *Log) restore(ctx context.Context, parts []string, o RestoreOptions) (*ApplyResult, error) {
	steps := l.stepEntries()
	from := slices.IndexFunc(steps, func(e *stepEntry) bool { return e.StepID == o.Step })
	if from < 0 {
		return nil, fmt.Errorf("%w: %d", ErrNoStep, o.Step)
	}
	steps = steps[from:]
	if err := l.admitRestore(ctx, steps, o); err != nil {
		return nil, err
	}
	v := newPastView(l.root)
	for i := len(steps) - 1; i >= 0; i-- {
		dir, err := l.openStepEntry(steps[i])
		if err != nil {
			return nil, err
		}
		defer dir.close()
		e, err := l.newEngine(dir, task{Kind: taskUndo, Name: steps[i].name}, o.Force)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", steps[i].StepID, err)
		}
		defer e.close()
		if err := v.push(e); err != nil {
			return nil, fmt.Errorf("look through step %d: %w", steps[i].StepID, err)
		}
	}
	return l.restoreFrom(ctx, v, parts, o)
}

// admitRestore refuses what cannot be looked through, and to overwrite edits
// from outside at the path.
func (l *Log) admitRestore(ctx context.Context, steps []*stepEntry, o RestoreOptions) error {
	for _, e := range steps {
		if e.Unprotected {
			return fmt.Errorf("step %d: %w", e.StepID, ErrUnprotected)
		}
		if e.Damaged != "" {
			return fmt.Errorf("step %d: %w: %s", e.StepID, ErrDamaged, e.Damaged)
		}
	}
	if o.Force {
		return nil
	}
	newest := slices.Clone(steps)
	slices.Reverse(newest)
	all, err := l.checkBarriers(ctx, newest)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(b Barrier) bool {
		return !slices.ContainsFunc(b.Paths, func(p string) bool {
			return o.Path == "" || o.Path == "." || p == o.Path || strings.HasPrefix(p, o.Path+"/")
		})
	})
	if len(all) > 0 {
		return &BarrierError{Barriers: all}
	}
	return nil
}

// restoreFrom writes what the view shows at a path as the records of a new
// step, and applies them; their inverse is the step.
func (l *Log) restoreFrom(ctx context.Context, v *pastView, parts []string, o RestoreOptions) (*ApplyResult, error) {
	wal, err := hostfs.OpenDirPathAt(l.dir.FD(), "wal")
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(wal)
	if err := l.discardNew(); err != nil {
		return nil, err
	}
	id, err := l.ids.nextStep(TypeAPI)
	if err != nil {
		return nil, err
	}
	seq, err := l.ids.nextSeq()
	if err != nil {
		return nil, err
	}
	step := stepRecord{ID: id, Seq: seq, StartedAt: l.now(), Type: TypeAPI,
		Command: fmt.Sprintf("restore %s --step %d", o.Path, o.Step)}
	fd, err := hostfs.OpenSubdir(wal, rollbackNew, true)
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(fd)
	done := false
	defer func() {
		if !done {
			_ = l.discardDir(wal, rollbackNew)
		}
	}()
	tfd, err := hostfs.OpenSubdir(fd, "target", true)
	if err != nil {
		return nil, err
	}
	target := newStepDir(tfd)
	defer target.close()
	w := &pastWriter{v: v, l: l, dir: target, objs: map[*thing]objID{}}
	if err := w.write(ctx, step, parts); err != nil {
		return nil, err
	}
	out, err := l.applyRestore(ctx, target, task{Kind: taskRestore, Step: id, Name: formatStepID(id)}, step, o)
	if err != nil || out == nil {
		return l.interrupted(&ApplyResult{}), err
	}
	done = !o.DryRun
	res := out.result()
	if !o.DryRun {
		if err := l.enforceLimits(ctx); err != nil {
			l.log.Error("limits not enforced", "err", err)
		}
	}
	for _, e := range l.stepEntries() {
		if e.StepID == id {
			res.Steps = []Entry{e.Entry}
		}
	}
	return res, nil
}

// applyRestore is applyDir for the records of a restore; nil says that there
// is nothing to do, or that it was only to be told what would be done.
func (l *Log) applyRestore(ctx context.Context, target *stepDir, t task, step stepRecord, o RestoreOptions) (*outcome, error) {
	e, err := l.newEngine(target, t, false)
	if err != nil {
		return nil, err
	}
	defer e.close()
	defer e.ungrant()
	if err := e.locate(); err != nil {
		return nil, err
	}
	e.plan()
	if len(e.lost) > 0 {
		return nil, fmt.Errorf("%w: %q cannot be restored", ErrDamaged, e.lost[0])
	}
	if e.nothingToDo() {
		return nil, nil
	}
	if o.DryRun {
		out := &outcome{}
		out.paths, out.count = e.affected()
		return out, nil
	}
	if err := l.dropRedo(); err != nil {
		return nil, err
	}
	list, count := e.affected()
	summary := func(fd int) error {
		s := entryOf(&step)
		s.EndedAt, s.Status = l.now(), "completed"
		s.AffectedCount, s.AffectedPaths = count, []string{}
		for _, a := range list {
			s.AffectedPaths = append(s.AffectedPaths, a.Path)
		}
		var err error
		if s.StoredBytes, err = diskUsage(fd); err != nil {
			return err
		}
		return errors.Join(writePaths(fd, e.affectedAll()), writeSummary(fd, s))
	}
	if err := l.prepare(e, target, &t, summary); err != nil {
		return nil, err
	}
	return l.carryOut(ctx, e, target, t)
}

// pastWriter writes a part of a pastView as the journal and blobs of a target.
type pastWriter struct {
	v    *pastView
	l    *Log
	dir  *stepDir
	w    *recordWriter
	objs map[*thing]objID // of what is copied
	next objID
}

func (w *pastWriter) write(ctx context.Context, step stepRecord, parts []string) (err error) {
	if w.w, err = createJournal(w.dir.fd, &step, false); err != nil {
		return err
	}
	defer func() {
		if cerr := w.w.close(); err == nil {
			err = cerr
		}
	}()
	w.next = rootObj
	top, err := w.keep(w.v.top, noObj, "", len(parts) == 0)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return w.inside(ctx, w.v.top, top)
	}
	was, now, dir := w.v.top, w.v.top, top
	for _, name := range parts[:len(parts)-1] {
		if was, err = w.v.lookup(was, name); err != nil {
			return err
		}
		if now, err = w.v.present(now, name); err != nil {
			return err
		}
		if was == nil || was.typ != unix.S_IFDIR {
			return fmt.Errorf("%w: its directory %q did not exist then", unix.ENOENT, name)
		}
		if now == nil || now.typ != unix.S_IFDIR {
			return fmt.Errorf("%w: its directory %q does not exist now; restore that first", unix.ENOENT, name)
		}
		if dir, err = w.keep(now, dir, name, false); err != nil {
			return err
		}
	}
	name := parts[len(parts)-1]
	if was, err = w.v.lookup(was, name); err != nil {
		return err
	}
	if now, err = w.v.present(now, name); err != nil {
		return err
	}
	return w.name(ctx, dir, name, was, now)
}

// name makes name in dir (an object that is in the folder) what it was.
func (w *pastWriter) name(ctx context.Context, dir objID, name string, was, now *thing) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case was == nil && now == nil:
		return nil
	case was == now:
		if touched, err := w.v.touched(was); err != nil || !touched {
			return err
		}
		id, err := w.keep(now, dir, name, true)
		if err != nil || was.typ != unix.S_IFDIR {
			return err
		}
		return w.inside(ctx, was, id)
	}
	old := noObj
	if was != nil {
		var err error
		if old, err = w.copy(ctx, was, 0); err != nil {
			return err
		}
	}
	b := bindingRecord{Dir: dir, Name: name, Old: old}
	return w.w.append(b.frame(nil))
}

// inside goes through a directory that is in the folder now as it was then.
func (w *pastWriter) inside(ctx context.Context, d *thing, id objID) error {
	names, err := w.v.names(d)
	if err != nil {
		return err
	}
	fd, err := w.v.open(d, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	entries, err := hostfs.ReadDir(fd)
	_ = hostfs.Close(fd)
	if err != nil {
		return err
	}
	for _, x := range entries {
		names[x.Name] = true
	}
	sorted := make([]string, 0, len(names))
	for n := range names {
		sorted = append(sorted, n)
	}
	slices.Sort(sorted)
	for _, n := range sorted {
		was, err := w.v.lookup(d, n)
		if err != nil {
			return err
		}
		now, err := w.v.present(d, n)
		if err != nil {
			return err
		}
		if err := w.name(ctx, id, n, was, now); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	return nil
}

// keep records an object that stays in the folder: as it was then, or (its
// parents) as it is now.
func (w *pastWriter) keep(t *thing, parent objID, name string, past bool) (objID, error) {
	id := w.next
	w.next++
	r := objectRecord{Obj: id, ID: t.id, Parent: parent, Name: name}
	var xattrs []hostfs.Xattr
	has := false
	if past {
		var err error
		if r.Meta, xattrs, has, err = w.v.meta(t, false); err != nil {
			return noObj, err
		}
	} else {
		st, err := w.v.statNow(t)
		if err != nil {
			return noObj, err
		}
		r.Meta = metaOf(st, "")
	}
	buf := r.frame(nil)
	if has {
		x := xattrsRecord{Obj: id, Xattrs: xattrs}
		buf = x.frame(buf)
	}
	if err := w.w.append(buf); err != nil {
		return noObj, err
	}
	if past && t.typ == unix.S_IFREG {
		return id, w.ranges(t, id, r.Meta.Size)
	}
	return id, nil
}

// ranges records the bytes of a file that the layers captured.
func (w *pastWriter) ranges(t *thing, id objID, size int64) error {
	type span struct{ off, end int64 }
	var spans []span
	for _, l := range w.v.layers {
		if n := t.as[l]; n != nil && !n.Created {
			for _, c := range l.e.t.rec.Contents[n.Obj] {
				spans = append(spans, span{c.Off, min(c.Off+c.Len, size)})
			}
			if n.Meta.Size < size { // shorter in between
				spans = append(spans, span{n.Meta.Size, size})
			}
		}
	}
	if len(spans) == 0 {
		return nil
	}
	slices.SortFunc(spans, func(a, b span) int { return int(min(max(a.off-b.off, -1), 1)) })
	err := w.dir.withBlobDir(id, true, func(dir int) error {
		fd, err := hostfs.OpenAt(dir, contentBlobName(id, 1), unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(w.v.writePast(t, fd), hostfs.Close(fd))
	})
	if err != nil {
		return err
	}
	var buf []byte
	for end, i := int64(0), 0; i < len(spans); i++ {
		s := span{max(spans[i].off, end), spans[i].end}
		if s.off < s.end {
			r := contentRecord{Obj: id, Off: s.off, Len: s.end - s.off, Enc: encRawBlob, Blob: 1}
			buf, end = r.frame(buf, nil), s.end
		}
	}
	return w.w.append(buf)
}

// copy puts a copy of a thing of the past, and all that was inside, into the
// target's blobs and records it as retained there. Another name of the same
// file is the same object.
func (w *pastWriter) copy(ctx context.Context, t *thing, depth int) (objID, error) {
	if id := w.objs[t]; id != noObj {
		return id, nil
	}
	if err := ctx.Err(); err != nil {
		return noObj, err
	}
	if depth > maxCopyDepth*10 {
		return noObj, fmt.Errorf("directories too deep: %w", unix.ENAMETOOLONG)
	}
	m, xattrs, has, err := w.v.meta(t, true)
	if err != nil {
		return noObj, err
	}
	id := w.next
	w.next++
	w.objs[t] = id
	n := &node{objectRecord: &objectRecord{Obj: id, Meta: m}, typ: t.typ}
	var st hostfs.Stat
	err = w.dir.withBlobDir(id, true, func(dir int) (err error) {
		st, err = w.copyOne(t, n, dir, blobName(id), xattrs, has)
		return err
	})
	if err != nil {
		return noObj, err
	}
	r := objectRecord{Obj: id, ID: st.ID, Meta: m}
	buf := r.frame(nil)
	if has {
		x := xattrsRecord{Obj: id, Xattrs: xattrs}
		buf = x.frame(buf)
	}
	if err := w.w.append(frameObj(buf, recRetain, id)); err != nil {
		return noObj, err
	}
	if t.typ != unix.S_IFDIR {
		return id, nil
	}
	names, err := w.v.names(t)
	if err != nil {
		return noObj, err
	}
	for name := range names {
		was, err := w.v.lookup(t, name)
		if err != nil || was == nil {
			return noObj, errors.Join(err, fmt.Errorf("%w: %q is not in the past", ErrDamaged, name))
		}
		old, err := w.copy(ctx, was, depth+1)
		if err != nil {
			return noObj, err
		}
		b := bindingRecord{Dir: id, Name: name, Old: old}
		if err := w.w.append(b.frame(nil)); err != nil {
			return noObj, err
		}
	}
	return id, nil
}

func (w *pastWriter) copyOne(t *thing, n *node, dir int, name string, xattrs []hostfs.Xattr, has bool) (st hostfs.Stat, err error) {
	fd, err := hostfs.MakeAt(dir, name, t.typ|0o600, n.Meta.Target, func(fd int) error {
		if t.typ == unix.S_IFDIR {
			return nil
		}
		return errors.Join(w.v.writeBase(t, fd), w.v.writePast(t, fd))
	})
	if err != nil {
		return st, err
	}
	defer hostfs.Close(fd)
	if t.typ != unix.S_IFDIR {
		err = (&engine{}).setMeta(fd, n, xattrs, has)
	}
	if err != nil {
		return st, err
	}
	return hostfs.StatFD(fd)
}
