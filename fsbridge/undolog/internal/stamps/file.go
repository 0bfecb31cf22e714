package stamps

import (
	"log/slog"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// maxFile bounds what is read of a stamps file, in bytes.
const maxFile = 1 << 30

// file is the file "stamps" of an undo directory.
type file struct {
	dir  int
	fd   int
	size int64 // of the sound part
}

func (f *file) Append(frame []byte) error {
	if err := fault.Point("stamps.append"); err != nil {
		return err
	}
	if err := hostfs.PwriteFull(f.fd, frame, f.size); err != nil {
		_ = hostfs.TruncateFD(f.fd, f.size)
		return err
	}
	f.size += int64(len(frame))
	return nil
}

func (f *file) Replace(content []byte) error {
	if err := store.WriteFile(f.dir, "stamps", content); err != nil {
		return err
	}
	fd, err := hostfs.OpenAt(f.dir, "stamps", posix.O_RDWR|posix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	_ = hostfs.Close(f.fd)
	f.fd, f.size = fd, int64(len(content))
	return nil
}

// Config is what a table needs of the log. No function may take the lock of
// a step or call the table.
type Config struct {
	Dir  int          // the undo directory
	Root *hostfs.Root // the working folder
	// Volumes translates between inodes as the kernel names them and as they stand in the log.
	Volumes *format.Volumes
	// WarnOnly makes a warning of an edit, in place of a barrier.
	WarnOnly bool
	// Unseen tells what is not captured, so that its changes say nothing.
	Unseen func(path string, st *hostfs.Stat) bool
	// Newest is the closed step that an edit found now stands after. It is called
	// with the table locked, as NextBarrier is.
	Newest      func() (StepRef, bool)
	NextBarrier func() (uint64, error)
	Now         func() time.Time
	Warn        func(format.Warning) // called without locks held
	Log         *slog.Logger
}

// Open loads the table of the undo directory. A torn or damaged tail is
// cut; what is lost with it is in doubt then, or stale and makes a barrier too many.
func Open(c Config) (*Table, error) {
	fd, err := hostfs.OpenKept(c.Dir, "stamps")
	if err != nil {
		return nil, err
	}
	f := &file{dir: c.Dir, fd: fd}
	t := newTable(c.Root.ID(), c.Volumes, f)
	t.cfg, t.coarse = c, !posix.FineTimes(c.Root.FD())
	content, err := hostfs.ReadSmall(c.Dir, "stamps", maxFile)
	if err == nil {
		f.size, err = t.load(content)
		t.size = f.size
	}
	if err != nil {
		c.Log.Warn("stamps are damaged", "err", err)
		err = hostfs.TruncateFD(fd, f.size)
		if newest, _ := c.Newest(); err == nil {
			err = t.Doubt(newest.Seq)
		}
		if err != nil {
			_ = hostfs.Close(fd)
			return nil, err
		}
	}
	return t, nil
}

// Close closes the file. A nil table has none.
func (t *Table) Close() {
	if t == nil {
		return
	}
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if f, ok := t.file.(*file); ok && f.fd >= 0 {
		_ = hostfs.Close(f.fd)
		f.fd = -1
	}
}

// SetFile has the table write to f, for tests, and returns where it wrote before.
func (t *Table) SetFile(f Sink) (before Sink) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	before, t.file = t.file, f
	return before
}

// SetCoarse says whether small contents are hashed, too, because the clock of
// ctime is coarse.
func (t *Table) SetCoarse(on bool) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.coarse = on
}

// Overlook takes the attributes of an inode as they are, but not its content: as if
// the clock had stood still. It is for tests.
func (t *Table) Overlook(st *hostfs.Stat) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	v := t.inodes[st.ID]
	v.stamp = stampOf(st)
	t.inodes[st.ID] = v
}
