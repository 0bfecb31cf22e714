package undolog

import (
	"context"
	"errors"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/capture"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// newHost makes what open steps share.
func (l *Log) newHost() (*capture.Host, error) {
	contents, err := store.NewContents()
	return &capture.Host{
		Root: l.root, Store: openSteps{l}, Links: l.held, Contents: contents,
		Symlinks: l.o.Symlinks, Gitignore: l.o.Gitignore, Limits: l.Limits,
		Now: l.now, Log: l.log, Warn: l.warn,
	}, err
}

// openSteps is the part of the log's directory that open steps use. It implements
// [capture.Store].
type openSteps struct{ l *Log }

func (s openSteps) NextSeq() (uint64, error) { return s.l.ids.NextSeq() }

// DropRedo implements [capture.Store]. What is forgotten may be what has filled the disk: then it is
// deleted before the change that it makes room for.
func (s openSteps) DropRedo() error {
	some := len(s.l.redoEntries()) > 0
	err := s.l.dropRedo()
	if err == nil && some && s.l.reserve.Scarce() {
		s.l.quiet()
		err = s.l.emptyTrash(context.Background())
	}
	return err
}

func (s openSteps) FindRetained(id hostfs.ID) (uint64, format.ObjID, error) {
	return s.l.findRetained(id)
}

// Names implements [capture.Store].
func (s openSteps) Names(made, since int) {
	if err := s.l.reserve.Grow(made, since); err != nil {
		s.l.log.Warn("no space is kept back for a full disk", "err", err)
	}
}

func (s openSteps) Create(name string, first *format.Step) (_ *store.StepDir, _ *format.Writer, err error) {
	wal := s.l.at.Wal
	if err := hostfs.MkdirAt(wal, name, 0o700); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			_ = hostfs.RemoveAll(context.Background(), wal, name, nil)
		}
	}()
	if err := fault.Point("begin.mkdir"); err != nil {
		return nil, nil, err
	}
	dir, err := s.l.at.OpenStep("wal", name)
	if err != nil {
		return nil, nil, err
	}
	w, err := format.CreateJournal(dir.FD, first, s.l.o.Durability == DurabilityPower)
	if err != nil {
		_ = dir.Close()
		return nil, nil, err
	}
	w.AllowRoom()
	s.sign(dir)
	s.l.own.Store(store.NewOwnAlive(s.l.root.FD()))
	if err := s.l.reserve.Make(); err != nil {
		s.l.log.Warn("no space is kept back for a full disk", "err", err)
	}
	return dir, w, nil
}

// sign begins the sign of life of the step that is open in dir.
func (s openSteps) sign(dir *store.StepDir) {
	sign, err := store.CreateAlive(dir.FD)
	if err != nil {
		s.l.log.Warn("no sign of life of the open step", "err", err)
	}
	s.l.sign.Swap(sign).Close()
}

// unsigned ends it, as Windows removes no file that is mapped, and calls f, after which the step is open no more. If f fails, it is still open.
func (s openSteps) unsigned(dir *store.StepDir, f func() error) error {
	s.l.sign.Swap(nil).Close()
	err := f()
	if err != nil {
		s.sign(dir)
	}
	return err
}

func (s openSteps) Discard(name string, dir *store.StepDir) error {
	dir.Settle()
	return s.unsigned(dir, func() error {
		return store.RemoveTree(context.Background(), s.l.at.Wal, name, s.l.relink, s.l.held)
	})
}

func (s openSteps) Promote(name string, dir *store.StepDir, w *format.Writer, e *Entry, list []Affected) error {
	dir.Settle()
	s.l.groups(e)
	if err := w.Trim(); err != nil { // first: the disk may be full
		return err
	}
	if err := store.WritePaths(dir.FD, list); err != nil {
		return err
	}
	e.StoredBytes = dir.Usage()
	if err := store.WriteSummary(dir.FD, *e); err != nil {
		return err
	}
	if w.Durable() {
		if err := errors.Join(w.Sync(), posix.Syncfs(dir.FD)); err != nil {
			return err
		}
	}
	wal, steps := s.l.at.Wal, s.l.at.Steps
	err := s.unsigned(dir, func() error {
		if err := hostfs.UnlinkAt(dir.FD, store.AliveName); err != nil && !errors.Is(err, posix.ENOENT) {
			return err
		}
		if err := fault.Point("commit.rename"); err != nil {
			return err
		}
		return hostfs.RenameNew(wal, name, steps, store.FormatStepID(e.StepID))
	})
	if err != nil {
		return err
	}
	if w.Durable() {
		_, _ = posix.Fsync(steps), posix.Fsync(wal)
	}
	_ = fault.Point("commit.done") // a place to be killed: the step is closed now
	return nil
}
