package files

import (
	"context"
	"fmt"
	"path"
	"runtime"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Bounds of a search. A batch is what one worker takes at a time.
const (
	maxWorkers     = 4
	maxBatch       = 64      // files
	maxBatchDirs   = 16      // directories that these are in
	maxResultBytes = 8 << 20 // of text in one result
)

// grep is a search under way. The caller's goroutine takes the results, in the
// order of the paths; one walks, and workers search, at most a few batches ahead.
type grep struct {
	f      *Folder
	r      GrepRequest
	q      *query
	filter filter
	start  string
	cancel context.CancelFunc

	work  chan *batch // to the workers
	order chan *batch // to the caller
	walk  walker
	err   error // of the walk

	batch *batch

	out   Results
	found int    // lines that match
	last  *Match // the last of them
	bytes int    // of text
}

// batch are files that one worker searches.
type batch struct {
	files []candidate
	dirs  int
	done  chan struct{}

	out   Results
	found int
	bytes int
	full  bool // no more may be found
}

type candidate struct {
	d    *dir
	name string
}

// Grep searches the contents of regular files for lines that match. Symlinks are
// not followed, other than in Path.
func (f *Folder) Grep(ctx context.Context, r GrepRequest) (Results, error) {
	ctx, leave, err := f.enter(ctx)
	if err != nil {
		return Results{}, err
	}
	defer leave()
	g := &grep{f: f}
	if err := g.check(r); err != nil {
		return Results{}, err
	}
	t, err := f.resolve(g.start)
	if err != nil {
		return Results{}, fail("search", g.start, err)
	}
	defer t.close()
	if t.st.IsDir() {
		err = g.tree(ctx, &t)
	} else {
		err = g.one(ctx, &t)
	}
	if cause := context.Cause(ctx); cause != nil {
		return Results{}, cause
	}
	if err != nil {
		return Results{}, fail("search", g.start, err)
	}
	return g.out, nil
}

// check checks the request and fills in what it leaves open.
func (g *grep) check(r GrepRequest) (err error) {
	if g.start, err = g.f.Rel(r.Path); err != nil {
		return err
	}
	switch r.Mode {
	case "":
		r.Mode = ModeFiles
	case ModeFiles, ModeCount, ModeContent:
	default:
		return fmt.Errorf("%w: output mode %q: use %q, %q or %q", ErrRequest, r.Mode, ModeContent, ModeFiles, ModeCount)
	}
	if r.Limit, err = limit("limit", r.Limit, DefaultFound); err != nil {
		return err
	}
	if r.Before < 0 || r.After < 0 || r.Before > MaxContext || r.After > MaxContext {
		return fmt.Errorf("%w: lines of context must be 0 to %d", ErrRequest, MaxContext)
	}
	if r.Mode != ModeContent {
		r.Before, r.After = 0, 0
	}
	g.r = r
	if g.filter, err = newFilter(r.Glob); err != nil {
		return err
	}
	g.q, err = compile(r.Pattern, r.Literal, r.IgnoreCase, r.Multiline)
	return err
}

// one searches one file that was asked for by name.
func (g *grep) one(ctx context.Context, t *target) error {
	fd, err := t.openRegular()
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	if g.filter.takes(path.Base(g.start)) {
		b := &batch{}
		newWorker(ctx, g).file(fd, t.st.Size, g.start, b)
		g.take(b)
	}
	return nil
}

// tree searches what is in a directory.
func (g *grep) tree(ctx context.Context, t *target) error {
	ctx, g.cancel = context.WithCancel(ctx)
	defer g.cancel()
	workers := max(2, min(runtime.GOMAXPROCS(0), maxWorkers))
	g.work, g.order = make(chan *batch, workers), make(chan *batch, 2*workers)
	var all sync.WaitGroup
	all.Go(func() {
		defer close(g.order)
		defer close(g.work)
		g.err = g.feed(ctx, t)
	})
	for range workers {
		all.Go(func() {
			w := newWorker(ctx, g)
			for b := range g.work {
				w.batch(b)
			}
		})
	}
	for b := range g.order {
		<-b.done
		if ctx.Err() == nil && !g.take(b) {
			g.cancel() // the rest is not searched, but given back
		}
	}
	all.Wait()
	g.out.Truncated = g.out.Truncated || g.walk.cut
	g.out.Unreadable += g.walk.unreadable
	if g.err != nil && ctx.Err() == nil {
		return g.err
	}
	return nil
}

// feed walks and makes batches.
func (g *grep) feed(ctx context.Context, t *target) error {
	g.walk = walker{f: g.f, search: true, gitignore: !g.r.Ignored, visit: func(d *dir, name string, kind uint8) (bool, error) {
		if kind == posix.DT_REG && g.filter.takes(below(join(d.shown, name), g.start)) {
			g.add(d, name)
		}
		return true, nil
	}}
	err := g.walk.from(ctx, t, g.start)
	g.send()
	return err
}

// add puts a file into the batch.
func (g *grep) add(d *dir, name string) {
	if g.batch == nil {
		g.batch = &batch{done: make(chan struct{})}
	}
	b := g.batch
	if n := len(b.files); n == 0 || b.files[n-1].d != d {
		b.dirs++
	}
	d.retain()
	b.files = append(b.files, candidate{d, name})
	if len(b.files) == maxBatch || b.dirs == maxBatchDirs {
		g.send()
	}
}

func (g *grep) send() {
	if g.batch != nil {
		g.work <- g.batch
		g.order <- g.batch
		g.batch = nil
	}
}

// take adds the results of a batch; it returns false when that is enough.
func (g *grep) take(b *batch) bool {
	o := &g.out
	o.Binary += b.out.Binary
	o.Unreadable += b.out.Unreadable
	o.TooLarge += b.out.TooLarge
	o.Truncated = o.Truncated || b.out.Truncated
	all := g.matches(b.out.Matches)
	for i, n := range []int{len(b.out.Files), len(b.out.Counts)} {
		if room := g.r.Limit - len(o.Files) - len(o.Counts); n > room {
			n, all = room, false
		}
		if i == 0 {
			o.Files = append(o.Files, b.out.Files[:n]...)
		} else {
			o.Counts = append(o.Counts, b.out.Counts[:n]...)
		}
	}
	o.Truncated = o.Truncated || !all
	return all && !b.full
}

// matches adds lines, up to the limits. The last line that matches keeps the
// context behind it.
func (g *grep) matches(lines []Match) bool {
	for i := range lines {
		m := &lines[i]
		if g.bytes >= maxResultBytes || !m.Context && g.found == g.r.Limit || m.Context && g.found == g.r.Limit && !g.behind(m) {
			return false
		}
		if !m.Context {
			g.found++
			g.last = m
		}
		g.bytes += len(m.Text) + len(m.Path)
		g.out.Matches = append(g.out.Matches, *m)
	}
	return true
}

// behind tells whether a line of context is behind the last line that matched.
func (g *grep) behind(m *Match) bool {
	return g.last != nil && m.Path == g.last.Path && m.Line > g.last.Line && m.Line <= g.last.Line+g.r.After
}
