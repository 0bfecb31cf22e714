package ninep

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// TestGuestCaches: a guest is told what others changed, not what it did itself,
// and asked to write back while it has files open for writing. Of one that is
// gone there is nothing to drop, nothing to write back, and no error.
func TestGuestCaches(t *testing.T) {
	var dropped []string
	var asked atomic.Int32
	refuse := errors.New("the guest does not answer")
	l := newLab(t, func(o *Options) {
		o.Drop = func(s Stale) error { dropped = append(dropped, s.Paths...); return nil }
		o.Sync = func(context.Context) error { asked.Add(1); return refuse }
		o.Tree.OnList = func(string, hostfs.ID) bool { return true }
	})
	told := func(what string) string {
		t.Helper()
		dropped = nil
		must(t, l.Changed([]string{"d/a"}))
		if what == "" {
			return strings.Join(dropped, " ")
		}
		fd, err := l.root.OpenPath(what, posix.O_PATH|posix.O_NOFOLLOW)
		must(t, err)
		st, err := hostfs.StatFD(fd)
		must(t, errors.Join(err, hostfs.Close(fd)))
		dropped = nil
		must(t, l.Invalidate(fsbridge.Changes{List: []fsbridge.Change{{ID: st.ID}}}))
		return strings.Join(dropped, " ")
	}
	must(t, l.Fence(t.Context())) // nobody was there yet
	if got := told(""); got != "" || asked.Load() != 0 {
		t.Errorf("before there is a guest: told of %q, asked %d times", got, asked.Load())
	}

	c := l.dial()
	must(t, c.rpc(typTmkdir, &tmkdir{0, "d", 0o755, 0}, new(rqid)))
	must(t, c.walk(0, 1, "d"))
	must(t, c.rpc(typTlcreate, &tlcreate{fid: 1, name: "a", flags: 2, mode: 0o644}, new(ropen)))
	must(t, c.write(1, 0, "the guest's"))
	if err := l.Fence(t.Context()); !errors.Is(err, refuse) || asked.Load() != 1 {
		t.Errorf("with a writer: asked %d times, %v", asked.Load(), err)
	}
	if got := told("d/a"); got != "d/a" {
		t.Errorf("an undo of d/a: told of %q", got)
	}
	must(t, os.WriteFile(l.path("d/a"), []byte("the user's, and longer"), 0o644))
	if got := told(""); got != "d d/a" {
		t.Errorf("the user's edit: told of %q", got)
	}

	// The guest restarts: the writer is gone with it, whatever it has cached too.
	must(t, c.rpc(typTversion, &tversion{1 << 20, version}, new(tversion)))
	waitFor(t, "the old session's end", func() bool { return l.InFlight() == 0 })
	if err := l.Fence(t.Context()); err != nil || asked.Load() != 1 {
		t.Errorf("after a restart: asked %d times, %v", asked.Load(), err)
	}
	if got := told("d/a"); got != "" {
		t.Errorf("a guest that has just started is told of %q", got)
	}
	must(t, c.rpc(typTattach, &tattach{fid: 0, afid: noFID, uid: noFID}, new(rqid)))
	must(t, c.open(0, 1, 1, "d", "a"))
	if err := l.Fence(t.Context()); !errors.Is(err, refuse) || asked.Load() != 2 {
		t.Errorf("the new guest's writer: asked %d times, %v", asked.Load(), err)
	}

	// The guest is gone with a file open for writing.
	l.conn.Close()
	<-l.Done()
	waitFor(t, "the last request", func() bool { return l.InFlight() == 0 })
	if err := l.Fence(t.Context()); err != nil || asked.Load() != 2 {
		t.Errorf("after the end: asked %d times, %v", asked.Load(), err)
	}
	if got := told("d/a"); got != "" {
		t.Errorf("a guest that is gone is told of %q", got)
	}
}

// TestGoneMeanwhile: a guest that goes while it is asked is no error.
func TestGoneMeanwhile(t *testing.T) {
	l := newLab(t, nil)
	l.o.Sync = func(context.Context) error {
		l.conn.Close()
		<-l.Done()
		return errors.New("the guest is gone")
	}
	c := l.dial()
	must(t, c.walk(0, 1))
	must(t, c.rpc(typTlcreate, &tlcreate{fid: 1, name: "a", flags: 2, mode: 0o644}, new(ropen)))
	must(t, l.Fence(t.Context()))
}
