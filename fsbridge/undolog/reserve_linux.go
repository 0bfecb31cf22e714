package undolog

import (
	"context"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// A command may fill the disk that the log is on, or take all its inodes. What closes a step or puts
// one back gets what the log has kept back for that, and what is to be deleted anyway. The reserve is made
// again when there is room: in the background, and when a step begins to change something.

// little runs f, which closes a step, and again with more room if there was none.
func (l *Log) little(ctx context.Context, f func() error) error {
	err := f()
	if store.NoSpace(err) && l.reserve.Lend() {
		err = f()
	}
	if store.NoSpace(err) && l.makeRoom(ctx) {
		err = f()
	}
	return err
}

// within runs f, which puts a step back, and again if there was no room after all.
func (l *Log) within(ctx context.Context, f func() error) error {
	if l.reserve.Scarce() {
		l.makeRoom(ctx)
	}
	err := f()
	if store.NoSpace(err) && l.makeRoom(ctx) {
		err = f()
	}
	return err
}

// makeRoom frees what the log can do without, and tells whether that was something.
func (l *Log) makeRoom(ctx context.Context) bool {
	some := l.reserve.Release()
	l.quiet()
	if err := l.emptyTrash(context.WithoutCancel(ctx)); err != nil {
		l.log.Warn("trash not emptied", "err", err)
	}
	return some
}

// keepReserve makes the reserve of a log that has something to put back.
func (l *Log) keepReserve() {
	if now := l.known.now(); len(now.steps)+len(now.redo) == 0 {
		return
	}
	if l.reserve.Scarce() {
		return
	}
	if err := l.reserve.Make(); err != nil {
		l.log.Warn("no space is kept back for a full disk", "err", err)
	}
}
