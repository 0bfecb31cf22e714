package undolog

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// worker is the log's one background goroutine: it empties the trash and
// compresses what exceeds the raw budget. It holds no lock that a capture
// needs. Lifecycle calls that open step directories stop it first.
type worker struct {
	mu      sync.Mutex
	cancel  context.CancelFunc // nil while it does not run
	done    chan struct{}
	stopped bool // for good
	holds   int  // by those that it must not run beside
}

// start runs f unless f is still running or the worker was closed.
func (w *worker) start(f func(ctx context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || w.holds > 0 || w.running() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	w.cancel, w.done = cancel, done
	go func() {
		defer close(done)
		defer cancel()
		f(ctx)
	}()
}

func (w *worker) running() bool {
	if w.done == nil {
		return false
	}
	select {
	case <-w.done:
		return false
	default:
		return true
	}
}

// stop interrupts the work and waits for its end.
func (w *worker) stop(forGood bool) {
	w.mu.Lock()
	w.stopped = w.stopped || forGood
	cancel, done := w.cancel, w.done
	w.mu.Unlock()
	if done != nil {
		cancel()
		<-done
	}
}

// tidy starts the background work, unless something awaits its recovery. Commit, undo and Open end with it.
func (l *Log) tidy() {
	if l.looks.Load() || l.awaitsRecovery() {
		return
	}
	l.worker.start(func(ctx context.Context) {
		if err := l.emptyTrash(ctx); err != nil && ctx.Err() == nil {
			l.log.Warn("trash not emptied", "err", err)
		}
		l.keepReserve()
		if _, err := l.compress(ctx, l.rawBudget(), nil); err != nil && ctx.Err() == nil {
			l.warn(Warning{Code: WarnCompression, Message: "older steps of the undo history could not be compressed: " + err.Error()})
		}
	})
}

// awaitsRecovery tells whether a step, an undo or a redo was interrupted. A recovery goes by the times of inodes to see
// what somebody has edited since, and an inode that the log takes a name from has a new one: so the log keeps its names
// until then.
func (l *Log) awaitsRecovery() bool { return l.cur.Load() == nil && l.unrecovered() }

// still keeps the background work from running until done is called: also when
// a reader that began earlier ends, and starts it again.
func (l *Log) still() (done func()) {
	w := &l.worker
	w.mu.Lock()
	w.holds++
	w.mu.Unlock()
	w.stop(false)
	return func() {
		w.mu.Lock()
		w.holds--
		w.mu.Unlock()
		l.tidy()
	}
}

// quiet stops the background work; call tidy when the step directories may be
// touched again.
func (l *Log) quiet() { l.worker.stop(false) }

// rawBudget is how many bytes of adopted files stay uncompressed. Half of what
// the log may have at all is the most: compression shall come before eviction.
func (l *Log) rawBudget() int64 {
	lim := l.Limits()
	b, size := lim.AdoptedRaw, lim.LogBytes
	if size > 0 && (b < 0 || b > size/2) {
		b = size / 2
	}
	return b
}

// GC compresses every step (CompressAll) or what exceeds the raw budget, or
// drops the whole history (Discard; ErrBusy while a step is open or an interrupted
// undo awaits its recovery), and frees the space of what was dropped, but for what a recovery has to come before. Like all lifecycle calls it is not to be
// called concurrently with others; captures may go on.
func (l *Log) GC(ctx context.Context, o GCOptions) (*GCResult, error) {
	if l.closed.Load() {
		return nil, ErrClosed
	}
	defer l.still()()
	res := &GCResult{BytesBefore: l.storedBytes(), Evicted: []StepID{}, Compressed: []StepID{}}
	var err error
	if o.Discard {
		if res.Evicted, err = l.discardHistory(); err == nil {
			l.reserve.Release()
		}
	} else {
		var undone []StepID
		undone, err = l.dropUndone(l.redoOverLimit(true))
		if err == nil {
			n, _ := l.overLimits()
			res.Evicted, err = l.evict(n)
		}
		res.Evicted = append(res.Evicted, undone...)
		budget := l.rawBudget()
		if o.CompressAll {
			budget = compressEverything
		}
		var packed []StepID
		if err == nil && !l.awaitsRecovery() {
			packed, err = l.compress(ctx, budget, o.Progress)
			res.Compressed = append(res.Compressed, packed...)
		}
	}
	if !l.awaitsRecovery() {
		err = errors.Join(err, l.emptyTrash(ctx))
	}
	if terr := l.trimStamps(true); err == nil {
		err = terr
	}
	res.BytesAfter = l.storedBytes()
	return res, err
}

func (l *Log) storedBytes() (n int64) {
	for _, e := range append(l.stepEntries(), l.redoEntries()...) {
		n += e.StoredBytes
	}
	return n
}

func (l *Log) discardHistory() ([]StepID, error) {
	if _, open := l.Current(); open {
		return []StepID{}, ErrBusy
	}
	if l.rollingBack() {
		return []StepID{}, ErrInterrupted
	}
	if _, err := l.keepCut(); err != nil { // then it goes with the others
		return []StepID{}, err
	}
	if err := l.dropRedo(); err != nil {
		return []StepID{}, err
	}
	steps := l.stepEntries()
	gone, err := l.evict(len(steps))
	if err == nil {
		err = l.marks.Clear()
	}
	if err == nil {
		seq := l.stamps.Newest()
		err = l.stamps.Forget(seq)
	}
	return gone, err
}

// enforceLimits evicts what exceeds the limits. Open and Commit call it.
func (l *Log) enforceLimits() error {
	undone, err := l.dropUndone(l.redoOverLimit(false))
	if len(undone) > 0 {
		l.warn(Warning{Code: WarnEvicted, Steps: undone,
			Message: fmt.Sprintf("the undo history is full: %d undone step(s) can no longer be done again", len(undone))})
	}
	if err != nil {
		return err
	}
	n, by := l.overLimits()
	if n == 0 {
		return nil
	}
	l.quiet()
	gone, err := l.evict(n)
	if len(gone) > 0 {
		l.warn(Warning{Code: WarnEvicted, Steps: gone, Usual: by == byNumber && n == 1,
			Message: fmt.Sprintf("%s: %d old step(s) can no longer be undone", by, len(gone))})
	}
	return err
}

// near says what is near of the limits at which old steps go.
func (l *Log) near() [2]string {
	return l.Limits().Near(len(l.stepEntries()), l.storedBytes())
}

// warnNear tells of the limits that step id, which was just closed, has brought near; before is what was near without it. Undone steps and
// compression take the log away from a limit: then it is told again when a step brings it near.
func (l *Log) warnNear(id StepID, before [2]string) {
	for i, now := range l.near() {
		if now != "" && before[i] == "" {
			l.warn(Warning{Code: WarnNearLimit, Steps: []StepID{id}, Message: now})
		}
	}
}

// redoOverLimit is how many undone steps, those that come last when they are done again, must go
// so that the whole log is within its size. Steps that can be undone never go for
// them. Unless all may go, the next one stays, with its group: somebody may just have undone it.
// A group goes as a whole.
func (l *Log) redoOverLimit(all bool) (n int) {
	limit := l.Limits().LogBytes
	if limit <= 0 || l.rollingBack() {
		return 0
	}
	redo, total := l.redoEntries(), l.storedBytes()
	together := func(i int) bool { return i > 0 && redo[i].Group != 0 && redo[i].Group == redo[i-1].Group }
	most := len(redo)
	if !all && most > 0 {
		for most--; together(most); most-- {
		}
	}
	for ; n < most && (total > limit || together(n)); n++ {
		total -= redo[n].StoredBytes
	}
	return n
}

// Why old steps go.
const (
	byAge    = "steps are older than undo.max_age allows"
	byNumber = "the undo history has as many steps as it may (undo.max_steps)"
	bySize   = "the undo history is as large as it may be (undo.max_bytes)"
)

// overLimits is how many of the oldest steps exceed the limits of age, number
// and size, and by which of them it is so many. Size alone never takes the newest step. While an interrupted undo awaits
// its recovery it is none: the undo needs the newest step, and age spares nobody.
func (l *Log) overLimits() (n int, by string) {
	if l.rollingBack() {
		return 0, ""
	}
	steps, lim := l.stepEntries(), l.Limits()
	if lim.Age > 0 {
		oldest := l.now().Add(-lim.Age)
		for n < len(steps) && steps[n].EndedAt.Before(oldest) {
			n, by = n+1, byAge
		}
	}
	if over := len(steps) - lim.StepCount; lim.StepCount > 0 && over > n {
		n, by = over, byNumber
	}
	if lim.LogBytes > 0 {
		var total int64
		for _, e := range steps[min(n, len(steps)):] {
			total += e.StoredBytes
		}
		for ; total > lim.LogBytes && n < len(steps)-1; n++ {
			total -= steps[n].StoredBytes
			by = bySize
		}
	}
	return n, by
}

// evict drops the n oldest steps: each goes to the trash by one rename.
func (l *Log) evict(n int) ([]StepID, error) {
	gone := []StepID{}
	steps := l.stepEntries()
	if n = min(n, len(steps)); n <= 0 {
		return gone, nil
	}
	err := l.marks.Lose(store.MarksEvicted, func(m Mark) bool { return m.Seq < steps[n-1].Seq })
	if err != nil {
		return gone, err
	}
	for _, e := range steps[:n] {
		if err = l.discardDir(l.at.Steps, e.name); err != nil {
			break
		}
		gone = append(gone, e.StepID)
		l.cutGroup(e.Group)
	}
	l.known.change(func(k *lists) { k.steps = k.steps[len(gone):] })
	l.sweepOutput()
	return gone, errors.Join(err, l.undone(nil))
}

// emptyTrash deletes what discardDir moved away.
func (l *Log) emptyTrash(ctx context.Context) error {
	names, err := hostfs.ReadDirAt(l.at.Trash)
	if err != nil {
		return err
	}
	for _, d := range names {
		if err = store.RemoveTree(ctx, l.at.Trash, d.Name, l.relink, l.held); err != nil {
			break
		}
	}
	return errors.Join(err, l.stamps.Flush())
}

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
