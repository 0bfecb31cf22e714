package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// An ordinary user who has to look into something of their own whose mode
// forbids it must change the mode for that moment. Once the rollback directory
// is there what is killed is completed, and the modes are put right with the
// rest. Before that nothing is to be seen of an apply that is killed: so the
// modes are written down first, in the directory that becomes rollback, and
// given back by whoever opens the log or applies something next.

// lentName is the file, one JSON line for each inode, below [Lender.Before].
const lentName = "lent"

// maxLent bounds what is read of it, in bytes.
const maxLent = 64 << 20

// lentMode is one line: the inode, where it is, and its mode.
type lentMode struct {
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
	Mode uint32 `json:"mode"`
	// Log says that Path begins at the undo directory, not at the folder's root.
	Log  bool   `json:"log,omitempty"`
	Path []byte `json:"path"` // base64: any bytes survive
}

// Lender knows what was lent. What it lends outlives the process only in the file.
type Lender struct {
	Root *hostfs.Root // the working folder
	Dir  *hostfs.Root // the undo directory
	// Volumes translates between inodes as the kernel names them and as they stand in the log.
	Volumes *format.Volumes
	Wal     int // descriptor of its directory wal
	// Before is the name below wal/ of what becomes the directory rollback.
	Before string
	Sync   bool // the file must survive a power failure
	Log    *slog.Logger
	// Relink is told before and after the ctime of a file changes.
	Relink func(fd int, done bool) error
}

// lend gives the owner of the inode st behind fd (which may be O_PATH), which
// is the object n, the rights of bits, too.
func (e *Engine) lend(n *layer.Node, fd int, st *hostfs.Stat, bits uint32) error {
	if e.Looking {
		return posix.EACCES
	}
	if e.Begun { // it is put right when all else is
		return hostfs.ChmodFD(fd, st.Mode|bits)
	}
	at, err := e.whereabouts(n)
	if err != nil {
		return err
	}
	return e.lendAt(at, fd, st, bits)
}

// lendAt is lend for what is at a place, before the apply has begun.
func (e *Engine) lendAt(at whereabouts, fd int, st *hostfs.Stat, bits uint32) error {
	id := e.Volumes.Disk(st.ID)
	m := lentMode{Dev: id.Dev, Ino: id.Ino, Mode: st.Mode & 0o7777, Log: at.inLog, Path: at.path}
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := e.Lender.note(append(line, '\n')); err != nil {
		return err
	}
	if !st.IsDir() { // its ctime changes, which must not look like an edit
		if err := e.Relink(fd, false); err != nil {
			return err
		}
	}
	if err := fault.Point("lend"); err != nil {
		return err
	}
	err = hostfs.ChmodFD(fd, st.Mode|bits)
	return errors.Join(err, fault.Point("lent"))
}

// openToRead opens the regular file n for reading, even where its mode forbids
// it, before anything else is changed.
func (e *Engine) openToRead(n *layer.Node, at entry, st *hostfs.Stat) (int, error) {
	where, err := e.whereabouts(n)
	if err != nil {
		return -1, err
	}
	return e.openLent(where, at, st)
}

// openLent is openToRead for what is at a place.
func (e *Engine) openLent(where whereabouts, at entry, st *hostfs.Stat) (int, error) {
	fd, err := hostfs.OpenVerified(at.fd, at.name, st.ID, posix.O_RDONLY|posix.O_NONBLOCK)
	if !errors.Is(err, posix.EACCES) {
		return fd, err
	}
	path, err := hostfs.OpenVerified(at.fd, at.name, st.ID, posix.O_PATH)
	if err != nil {
		return -1, err
	}
	defer hostfs.Close(path)
	if err := e.lendAt(where, path, st, 0o400); err != nil {
		return -1, err
	}
	fd, err = hostfs.ReopenFD(path, posix.O_RDONLY|posix.O_NONBLOCK)
	if berr := e.Lender.giveBack(path, st.Mode); berr != nil {
		err = errors.Join(err, berr)
	}
	if err != nil && fd >= 0 {
		_ = hostfs.Close(fd)
		fd = -1
	}
	return fd, err
}

// giveBack gives the inode behind fd its mode back.
func (l *Lender) giveBack(fd int, mode uint32) error {
	err := hostfs.ChmodFD(fd, mode)
	st, serr := hostfs.StatFD(fd)
	if err = errors.Join(err, serr); err != nil || st.IsDir() {
		return err
	}
	return l.Relink(fd, true)
}

// note appends a line to the file of lent modes.
func (l *Lender) note(line []byte) error {
	dir, err := hostfs.OpenSubdir(l.Wal, l.Before, true)
	if err != nil {
		return err
	}
	defer hostfs.Close(dir)
	fd, err := hostfs.OpenOwn(dir, lentName, posix.O_WRONLY|posix.O_CREAT|posix.O_APPEND)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	if err := hostfs.WriteFull(fd, line); err != nil {
		return err
	}
	if !l.Sync {
		return nil
	}
	return errors.Join(hostfs.SyncFD(fd), posix.Fsync(dir))
}

// Lent tells whether there is something for [Lender.TakeBack] to give back.
func (l *Lender) Lent() bool {
	dir, err := hostfs.OpenDirAt(l.Wal, l.Before)
	if err != nil {
		return false
	}
	defer hostfs.Close(dir)
	_, err = hostfs.StatAt(dir, lentName)
	return err == nil
}

// TakeBack gives back what an apply had lent that was killed, or failed, before
// its directory rollback was there.
func (l *Lender) TakeBack() error {
	dir, err := hostfs.OpenDirAt(l.Wal, l.Before)
	if errors.Is(err, posix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer hostfs.Close(dir)
	b, err := hostfs.ReadSmall(dir, lentName, maxLent)
	if errors.Is(err, posix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	var all []lentMode
	for line := range bytes.Lines(b) {
		var m lentMode
		if json.Unmarshal(line, &m) != nil {
			break // torn: what it announces was not done
		}
		all = append(all, m)
	}
	for _, m := range slices.Backward(all) { // what is inside a directory came after it
		if err := l.takeBackOne(&m); err != nil {
			l.Log.Warn("a mode is not what it was before an interrupted undo", "path", string(m.Path), "mode", m.Mode, "err", err)
		}
	}
	return hostfs.UnlinkAt(dir, lentName)
}

func (l *Lender) takeBackOne(m *lentMode) error {
	base := l.Root.FD()
	if m.Log {
		base = l.Dir.FD()
	}
	fd, err := hostfs.OpenBeneath(base, string(m.Path), posix.O_PATH|posix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatFD(fd)
	switch {
	case err != nil:
		return err
	case st.ID != l.Volumes.Live(hostfs.ID{Dev: m.Dev, Ino: m.Ino}):
		return hostfs.ErrChanged
	case st.Mode&0o7777 == m.Mode && st.IsDir():
		return nil
	case st.Mode&0o7777 == m.Mode:
		return l.Relink(fd, true)
	}
	return l.giveBack(fd, m.Mode)
}

// whereabouts is the path by which something is found.
type whereabouts struct {
	inLog bool // it begins at the undo directory, not at the folder's root
	path  []byte
}

// whereabouts tells where a located object is.
func (e *Engine) whereabouts(n *layer.Node) (w whereabouts, err error) {
	blob := func(step string, id format.ObjID, name string) {
		w.path = []byte(step + "/blobs/" + store.ShardName(id) + "/" + name)
	}
	up := n
	tail := ""
	for i := 0; up.Obj != format.RootObj && up.Place.Kind == layer.InTree; i++ {
		if i > len(e.t.Nodes) {
			return w, format.ErrDamaged
		}
		tail = "/" + up.Place.Name + tail
		up = e.t.Nodes[up.Place.Dir]
	}
	switch {
	case up.Obj == format.RootObj:
		return whereabouts{path: []byte(trimSlash(tail))}, nil
	case up.Place.Kind == layer.InOwn:
		blob(e.home, up.Obj, store.BlobName(up.Obj))
	case up.Place.Kind == layer.InOlder:
		if dir, ok := e.StepBySeq(up.RetainedSeq); ok {
			name := up.Place.Name // with that of the blob
			if name == "" {
				name = store.BlobName(up.RetainedObj)
			}
			blob(dir, up.RetainedObj, name)
		}
	}
	if w.path == nil {
		return w, posix.EACCES
	}
	return whereabouts{true, append(w.path, tail...)}, nil
}

func trimSlash(s string) string {
	if s == "" {
		return s
	}
	return s[1:]
}
