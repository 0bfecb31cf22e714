package undolog

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/base"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// keepOpen makes the interrupted open step, which is unprotected, a closed
// one: it cannot be rolled back, but it happened.
func (l *Log) keepOpen(rec *journal.Set) error {
	dir, err := store.OpenStepDir(l.at.Wal, store.OpenName)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := cutJournal(dir.FD, rec.Size); err != nil {
		return err
	}
	e := store.EntryOf(&rec.Step)
	e.Unprotected = true
	l.groups(&e)
	if err := l.summarise(dir.FD, e, "failed", recordedPaths(rec)); err != nil {
		return err
	}
	if err := hostfs.RenameNew(l.at.Wal, store.OpenName, l.at.Steps, store.FormatStepID(rec.Step.ID)); err != nil {
		return err
	}
	if err := l.relist(store.FormatStepID(rec.Step.ID), "steps"); err != nil {
		return err
	}
	return l.stamps.Forget(rec.Step.Seq)
}

// cutJournal takes off what comes after the last record: a torn one, or room for
// more.
func cutJournal(dirfd int, size int64) error {
	fd, err := hostfs.OpenAt(dirfd, "journal", unix.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	return hostfs.TruncateFD(fd, size)
}

// recordedPaths tells from the records alone which paths a step touched, by
// the names they had when it began.
func recordedPaths(rec *journal.Set) []Affected {
	path := func(id journal.ObjID) string {
		var parts []string
		for o := rec.Objects[id]; o != nil && o.Parent != journal.NoObj && len(parts) <= len(rec.Objects); o = rec.Objects[o.Parent] {
			parts = append(parts, o.Name)
		}
		slices.Reverse(parts)
		return strings.Join(parts, "/")
	}
	var out []Affected
	for _, k := range rec.Keys() {
		old := rec.Bindings[k]
		a := Affected{Path: strings.TrimPrefix(path(k.Dir)+"/"+k.Name, "/"), ExistedBefore: old != journal.NoObj, ExistsAfter: old == journal.NoObj,
			Change: "created", Type: "file"}
		if old != journal.NoObj {
			a.Change, a.Type = "replaced", base.TypeName(rec.Objects[old].Meta.Mode)
		}
		out = append(out, a)
	}
	for _, id := range rec.Order {
		if o := rec.Objects[id]; len(rec.Contents[id]) > 0 && !o.Created {
			out = append(out, Affected{Path: path(id), ExistedBefore: true, ExistsAfter: true, Change: "modified",
				Type: base.TypeName(o.Meta.Mode)})
		}
	}
	return out
}
