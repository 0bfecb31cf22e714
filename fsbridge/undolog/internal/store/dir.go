package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// FormatVersion is the version of the directory format.
const FormatVersion = 3

// oldVersion is that of logs which become logs of this version when they are opened.
const oldVersion = 2

// FormatStepID is the name of a step's directory below steps/ and redo/.
func FormatStepID(id format.StepID) string { return strconv.FormatInt(int64(id), 10) }

// ParseStepID is the inverse of FormatStepID and refuses everything else.
func ParseStepID(name string) (format.StepID, error) {
	n, err := strconv.ParseInt(name, 10, 64)
	if err != nil || n == 0 || strconv.FormatInt(n, 10) != name {
		return 0, fmt.Errorf("%q is not a step id", name)
	}
	return format.StepID(n), nil
}

// OpenDir opens the undo directory path, making what is missing of it with
// mode 0700 if create is true, and refuses one inside root or around it.
func OpenDir(path string, root *hostfs.Root, create bool) (*hostfs.Root, error) {
	abs, err := filepath.Abs(path)
	if err != nil || path == "" {
		return nil, Unusable(path, errors.Join(errors.New("not a path"), err))
	}
	if root != nil {
		if err := checkPlacement(abs, root); err != nil {
			return nil, err
		}
	}
	if create {
		if err := os.MkdirAll(abs, 0o700); err != nil {
			return nil, Unusable(path, err)
		}
	}
	if st, err := os.Lstat(abs); err == nil && st.Mode()&os.ModeSymlink != 0 {
		return nil, Unusable(path, errors.New("it is a symlink, which may lead elsewhere tomorrow; name the directory itself"))
	}
	dir, err := hostfs.OpenRoot(abs)
	if err != nil {
		return nil, Unusable(path, err)
	}
	if err := checkOwn(dir); err != nil {
		_ = dir.Close()
		return nil, Unusable(path, err)
	}
	return dir, nil
}

// checkPlacement looks at the identities of the directories above abs (as far
// as it exists) and above root.
func checkPlacement(abs string, root *hostfs.Root) error {
	base := abs
	for {
		if _, err := os.Lstat(base); err == nil || base == "/" {
			break
		}
		base = filepath.Dir(base)
	}
	inside := false
	err := walkUp(base, func(_ int, id hostfs.ID) error {
		inside = inside || id == root.ID()
		return nil
	})
	if err != nil {
		return Unusable(abs, err)
	}
	if inside {
		return Unusable(abs, errors.New("it lies inside the working folder, where what runs in the sandbox could change it; choose a place outside with --undo-dir"))
	}
	return walkUp(root.Path(), func(fd int, _ hostfs.ID) error {
		if looksLikeLog(fd) {
			return Unusable(abs, fmt.Errorf("the working folder %s lies inside an undo directory", root.Path()))
		}
		return nil
	})
}

// walkUp calls f for the directory path and every one above it.
func walkUp(path string, f func(fd int, id hostfs.ID) error) error {
	fd, err := posix.Open(path, posix.O_PATH|posix.O_DIRECTORY, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = posix.Close(fd) }()
	last := hostfs.ID{}
	for range 4096 {
		st, err := hostfs.StatFD(fd)
		if err != nil {
			return err
		}
		if st.ID == last {
			return nil
		}
		last = st.ID
		if err := f(fd, st.ID); err != nil {
			return err
		}
		up, err := posix.Parent(fd)
		if err != nil {
			return &os.PathError{Op: "open", Path: path + "/..", Err: err}
		}
		_ = posix.Close(fd)
		fd = up
	}
	return nil
}

// looksLikeLog tells whether the directory behind fd is an undo directory.
func looksLikeLog(fd int) bool {
	for _, name := range []string{"version", "lock", "ids", "wal", "steps"} {
		if _, err := hostfs.StatAt(fd, name); err != nil {
			return false
		}
	}
	return true
}

// TakeLock takes the lock of the directory and returns who had it before.
func TakeLock(dir *hostfs.Root) (int, format.Owner, error) {
	const name = "lock"
	var was format.Owner
	fd, err := hostfs.OpenAt(dir.FD(), name, posix.O_RDWR|posix.O_CREAT|posix.O_NONBLOCK, 0o600)
	if errors.Is(err, posix.EROFS) {
		fd, err = hostfs.OpenAt(dir.FD(), name, posix.O_RDONLY|posix.O_NONBLOCK, 0)
	}
	if err != nil {
		return -1, was, Unusable(dir.Path(), err)
	}
	shared, err := lockAs(dir, fd, name)
	was, _ = readOwner(dir)
	if err == nil && shared && !hostfs.ReadOnly(fd) {
		had := fd // until we have the copy: nobody else may have the file that it takes the place of
		defer func() { Unlock(had) }()
		if fd, err = hostfs.OpenKept(dir.FD(), name); err != nil {
			return -1, was, Unusable(dir.Path(), err)
		}
		_, err = lockAs(dir, fd, name)
	}
	if err == nil {
		return fd, was, nil
	}
	_ = hostfs.Close(fd)
	if errors.Is(err, posix.EWOULDBLOCK) {
		return -1, was, &format.LockedError{Dir: dir.Path(), Owner: was}
	}
	return -1, was, Unusable(dir.Path(), err)
}

// lockAs locks the file that is open as fd, and is the directory's of that name. Where it is not any more, whoever had it has removed the log or replaced
// the file: that is locked now, or will be. shared: it has other names.
func lockAs(dir *hostfs.Root, fd int, name string) (shared bool, err error) {
	if err := posix.Flock(fd, posix.LOCK_EX|posix.LOCK_NB); err != nil {
		return false, err
	}
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return false, err
	}
	if now, err := hostfs.StatAt(dir.FD(), name); err != nil || now.ID != st.ID {
		return false, errors.Join(err, posix.EWOULDBLOCK)
	}
	return st.Nlink > 1, nil
}

// Unlock gives the lock back that is open as fd. To close fd is not enough: a process that is being started has a copy of the
// descriptor until it executes its program, and the lock would be held as long.
func Unlock(fd int) {
	_ = posix.Flock(fd, posix.LOCK_UN)
	_ = hostfs.Close(fd)
}

// LockDir takes the lock of the directory and writes owner into the lock file.
func LockDir(dir *hostfs.Root, owner format.Owner) (int, error) {
	fd, _, err := TakeLock(dir)
	if err != nil {
		return -1, err
	}
	if err := WriteOwner(fd, owner); err != nil {
		Unlock(fd)
		return -1, Unusable(dir.Path(), err)
	}
	return fd, nil
}

// WriteOwner replaces what the lock file, open as fd, says of its owner.
func WriteOwner(fd int, o format.Owner) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if hostfs.ReadOnly(fd) {
		return posix.EROFS
	}
	if err := hostfs.PwriteFull(fd, b, 0); err != nil {
		return err
	}
	return hostfs.TruncateFD(fd, int64(len(b)))
}

// readOwner returns what the lock file says. The process that it names may be gone.
func readOwner(dir *hostfs.Root) (o format.Owner, err error) {
	b, err := hostfs.ReadSmall(dir.FD(), "lock", 64<<10)
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(b, &o); err != nil {
		return format.Owner{}, fmt.Errorf("undolog: lock file of %s: %w", dir.Path(), err)
	}
	return o, nil
}

// WriteFile is [hostfs.ReplaceFile] with a kill point.
func WriteFile(dirfd int, name string, data []byte) error {
	return hostfs.ReplaceFile(dirfd, name, data, func() error { return fault.Point("file." + name) })
}

// CheckVersion reads the version file, and writes it into a directory that is
// new.
func CheckVersion(dir *hostfs.Root) error {
	b, err := hostfs.ReadSmall(dir.FD(), "version", 64)
	if errors.Is(err, posix.ENOENT) {
		for _, name := range []string{"wal", "steps", "redo"} {
			if _, err := hostfs.StatAt(dir.FD(), name); err == nil {
				return &format.VersionError{Dir: dir.Path(), Found: 0, Want: FormatVersion}
			}
		}
		if err := writeVersion(dir); err != nil {
			return Unusable(dir.Path(), err)
		}
		return nil
	}
	if err != nil {
		return Unusable(dir.Path(), err)
	}
	v, err := strconv.Atoi(strings.TrimSuffix(string(b), "\n"))
	if err != nil || v < 1 {
		return &format.VersionError{Dir: dir.Path(), Found: 0, Want: FormatVersion}
	}
	if v != FormatVersion && v != oldVersion {
		return &format.VersionError{Dir: dir.Path(), Found: v, Want: FormatVersion}
	}
	return nil
}

func writeVersion(dir *hostfs.Root) error {
	return WriteFile(dir.FD(), "version", []byte(strconv.Itoa(FormatVersion)+"\n"))
}

// Upgrade makes a log of the version before, which is the caller's folder's, one of this version.
func Upgrade(dir *hostfs.Root) error {
	b, err := hostfs.ReadSmall(dir.FD(), "version", 64)
	if err == nil && string(b) == strconv.Itoa(oldVersion)+"\n" {
		err = upgrade(dir)
	}
	if err != nil {
		return Unusable(dir.Path(), err)
	}
	return nil
}

// logNames are the names that a log owns in its directory.
var logNames = []string{
	"wal", "steps", "redo", "trash", "remap", "rollback", "together", "marks", "output", "stamps", "ids", "reserve", volumesName, identityName, "version",
}

// Discard removes the log in dir, whatever its version, and leaves an empty
// directory in which a log starts afresh. It removes only what a log owns,
// and follows no symlink. It returns a *base.LockedError while somebody holds the
// log.
func Discard(ctx context.Context, dir string) error {
	r, err := OpenDir(dir, nil, false)
	if err != nil {
		return err
	}
	defer r.Close()
	lock, err := LockDir(r, format.Owner{PID: os.Getpid()})
	if err != nil {
		return err
	}
	defer Unlock(lock)
	for _, name := range logNames { // version last: until then it is a mismatch
		err := errors.Join(hostfs.RemoveAll(ctx, r.FD(), name, nil), hostfs.RemoveAll(ctx, r.FD(), name+hostfs.Unfinished, nil)) // a kill may have left that
		if err == nil || ctx.Err() != nil {
			continue
		}
		// What somebody else owns in it, say, stands in nobody's way under another name.
		if rerr := setAside(r.FD(), name); rerr != nil {
			return Unusable(dir, errors.Join(err, rerr))
		}
	}
	return ctx.Err()
}

// setAside renames name below dirfd to a free name.
func setAside(dirfd int, name string) error {
	for n := 1; ; n++ {
		err := hostfs.RenameNew(dirfd, name, dirfd, fmt.Sprintf("%s.discarded.%d", name, n))
		if !errors.Is(err, posix.EEXIST) {
			return err
		}
	}
}

// IDs are the persisted numbers that are never given twice.
type IDs struct {
	fd int

	mu                          sync.Mutex
	command, ambient, seq, barr uint64 // the next ones
}

const (
	countersWords = 5
	countersMagic = 0x44494253 | 2<<32 // "SBID" and the version that made it so
)

// OpenIDs reads the file "ids". If it is new or damaged, the counters
// start above floor().
func OpenIDs(dirfd int, floor func() uint64) (*IDs, error) {
	fd, err := hostfs.OpenKept(dirfd, "ids")
	if err != nil {
		return nil, err
	}
	c := &IDs{fd: fd}
	buf := make([]byte, format.WordsSize(countersWords))
	n, err := hostfs.PreadFull(fd, buf, 0)
	if w := format.Words(buf[:n], countersWords); err == nil && w != nil && w[0] == countersMagic {
		c.command, c.ambient, c.seq, c.barr = w[1], w[2], w[3], w[4]
		return c, nil
	}
	next := uint64(1)
	if f := floor(); n > 0 || f > 0 {
		next = f + 1_000_000
	}
	c.command, c.ambient, c.seq, c.barr = next, next, next, next
	if err := c.store(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// store persists the counters. Call it with mu held.
func (c *IDs) store() error {
	return hostfs.PwriteFull(c.fd, format.AppendWords(nil, countersMagic, c.command, c.ambient, c.seq, c.barr), 0)
}

func (c *IDs) take(p *uint64) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := *p
	*p++
	return v, c.store()
}

func (c *IDs) NextStep(t format.StepType) (format.StepID, error) {
	if t == format.TypeAmbient {
		v, err := c.take(&c.ambient)
		return -format.StepID(v), err
	}
	v, err := c.take(&c.command)
	return format.StepID(v), err
}

func (c *IDs) NextSeq() (uint64, error)     { return c.take(&c.seq) }
func (c *IDs) NextBarrier() (uint64, error) { return c.take(&c.barr) }

// Reserve makes sure that id, which the caller chose, is not given by NextStep.
func (c *IDs) Reserve(id format.StepID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, v := &c.command, uint64(id)
	if id < 0 {
		p, v = &c.ambient, uint64(-id)
	}
	if *p > v {
		return nil
	}
	*p = v + 1
	return c.store()
}

func (c *IDs) Close() { _ = hostfs.Close(c.fd) }

// Unusable wraps base.ErrUndoDir.
func Unusable(dir string, err error) error {
	return &dirError{dir: dir, err: err}
}

type dirError struct {
	dir string
	err error
}

func (e *dirError) Error() string {
	what := hostfs.Describe(e.err)
	switch {
	case errors.Is(e.err, posix.EROFS), errors.Is(e.err, posix.EACCES), errors.Is(e.err, posix.EPERM):
		what = "it is not writable (" + what + "); choose another with --undo-dir"
	case errors.Is(e.err, posix.ENOSPC), errors.Is(e.err, posix.EDQUOT):
		what = "its disk is full (" + what + "); free some space or choose another with --undo-dir"
	}
	return "cannot use undo directory " + e.dir + ": " + what
}

func (e *dirError) Unwrap() []error { return []error{format.ErrUndoDir, e.err} }
