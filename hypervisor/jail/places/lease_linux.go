package places

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxSlots bounds how many sessions of a user can have overlays at once.
const maxSlots = 256

// Names in a slot and in a place of it.
const (
	lockFile   = "lock"
	holderFile = "holder"
	trashDir   = "trash"

	placeFile = "place"
	UpperDir  = "upper"
	WorkDir   = "work"

	// MemoryDir, in the slot, is where a file system in memory is mounted for a moment.
	MemoryDir = "memory"
)

// Lease is a slot that nobody else has. Close it.
type Lease struct {
	dir    string
	lock   *os.File
	lost   bool     // the machine went down while somebody had it
	works  []string // what overlays work in
	closed chan struct{}
}

// Lease takes the first free slot for commands of a user.
func (s Store) Lease(uid int) (*Lease, error) {
	base := filepath.Join(s.Dir, strconv.Itoa(uid))
	for n := range maxSlots {
		l, err := takeSlot(filepath.Join(base, strconv.Itoa(n)))
		if !errors.Is(err, ErrInUse) {
			return l, err
		}
	}
	return nil, fmt.Errorf("%s: all %d slots: %w", base, maxSlots, ErrInUse)
}

// takeSlot locks a slot, which it makes if it is missing.
func takeSlot(dir string) (*Lease, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(dir, MemoryDir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, errors.Join(err, f.Close())
	}
	l := &Lease{dir: dir, lock: f, closed: make(chan struct{})}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), f.Close())
	}
	pid, lost := holder(dir)
	if pid != 0 { // its supervisor was killed, and it will be
		return nil, errors.Join(fmt.Errorf("%s: process %d: %w", dir, pid, ErrInUse), f.Close())
	}
	l.lost = lost
	return l, nil
}

// Memory is the slot's [MemoryDir].
func (l *Lease) Memory() string { return filepath.Join(l.dir, MemoryDir) }

// Hold notes the first process of the jail that has the overlays. It is called before
// that process mounts them.
func (l *Lease) Hold(pid int) error {
	text := fmt.Sprintf("%d %s %s\n", pid, started(pid), boot())
	return os.WriteFile(filepath.Join(l.dir, holderFile), []byte(text), 0o600)
}

// holder is the process that [Lease.Hold] noted for a slot, if it is still there. If there is
// none, lost reports whether the machine went down meanwhile.
func holder(slot string) (pid int, lost bool) {
	data, err := os.ReadFile(filepath.Join(slot, holderFile))
	if err != nil {
		return 0, false
	}
	f := strings.Fields(string(data))
	if len(f) != 3 {
		return 0, true // it was not written to its end
	}
	if f[2] != boot() {
		return 0, true
	}
	pid, err = strconv.Atoi(f[0])
	if err != nil || pid <= 0 || started(pid) != f[1] {
		return 0, false
	}
	return pid, false
}

// boot names this run of the machine.
func boot() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(data))
}

// started is when a process started, in the kernel's words; empty if there is none, or
// if it is dead.
func started(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := bytes.Cut(data, []byte(") ")) // its name may hold spaces, and no newline
	f := strings.Fields(string(rest))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return ""
	}
	return f[19]
}

// Close gives the slot back. The jail's processes are gone by then. What overlays have worked in stays: the next lease moves it away.
func (l *Lease) Close() error {
	close(l.closed)
	for _, work := range l.works { // the kernel denies everybody a look into what it makes there, and a user's own rm would fail
		for dir := work; os.Geteuid() != 0 && dir != ""; dir = below(dir) {
			_ = os.Chmod(dir, 0o700) // of a real directory: nobody else changes the tree
		}
	}
	err := os.Remove(filepath.Join(l.dir, holderFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.lock.Close())
}

// below is the directory in a directory that holds one at most, or empty.
func below(dir string) string {
	list, _ := os.ReadDir(dir) // there may be none
	for _, e := range list {
		if e.IsDir() {
			return filepath.Join(dir, e.Name())
		}
	}
	return ""
}

// Layers are those of a place.
type Layers struct {
	Dir string // in which they lie
	// Alone: there is nothing but the upper layer, and never was. It is mounted itself.
	Alone bool
}

// Prepare makes the layers of a place. lower is the host's directory: Path, or empty if there is none.
func (l *Lease) Prepare(p Place, lower string, owner Owner) (made Layers, err error) {
	dir := filepath.Join(l.dir, name(p))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return Layers{}, err
	}
	if p.Session {
		return Layers{Dir: dir}, nil // its upper layer is in memory
	}
	work := filepath.Join(dir, WorkDir)
	if lower == "" && len(p.Hidden) == 0 { // where an overlay was, whiteouts may be left that only an overlay hides
		_, err := os.Lstat(work)
		made.Alone = errors.Is(err, fs.ErrNotExist)
	}
	made.Dir = dir
	if l.lost { // nothing was synced: files may be there in part
		err = l.throwAway(filepath.Join(dir, UpperDir))
	}
	if !made.Alone {
		l.works = append(l.works, work)
		err = errors.Join(err, l.fresh(work))
	}
	return made, errors.Join(err, l.upper(dir, p, lower, owner))
}

// upper makes a place's upper layer, if it is missing, and says beside it what the place is.
func (l *Lease) upper(dir string, p Place, lower string, owner Owner) error {
	upper := filepath.Join(dir, UpperDir)
	err := os.Mkdir(upper, 0o700)
	if errors.Is(err, fs.ErrExist) {
		err = nil
	} else if err == nil {
		uid, gid, mode := owner.Like(lower)
		if os.Geteuid() == 0 {
			err = os.Lchown(upper, uid, gid)
		}
		err = errors.Join(err, os.Chmod(upper, mode))
	}
	if err != nil {
		return err
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, placeFile)
	if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, data) {
		return nil
	}
	return os.WriteFile(file, data, 0o600)
}

// name is the name of a place's directory.
func name(p Place) string {
	s := strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(p.Path, "/"), "%", "%25"), "/", "%2F")
	if p.Session {
		s = "session%" + s
	}
	if len(s) > 200 {
		s = fmt.Sprintf("%s%%%x", s[:150], sum(p.Path))
	}
	return s
}

// Like is the owner and the mode that a directory of the host has inside; one that is
// missing is this owner's.
func (o Owner) Like(host string) (uid, gid int, mode fs.FileMode) {
	var st unix.Stat_t
	if host == "" || unix.Lstat(host, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return o.UID, o.GID, 0o755
	}
	uid, gid, mode = int(st.Uid), int(st.Gid), fs.FileMode(st.Mode&0o777)
	if o.Mapped && uid == 0 {
		uid = o.UID
	}
	if o.Mapped && gid == 0 {
		gid = o.GID
	}
	return uid, gid, mode
}

// discard throws the layers of a place away.
func (l *Lease) discard(dir string) error {
	return errors.Join(l.throwAway(filepath.Join(dir, UpperDir)), l.throwAway(filepath.Join(dir, WorkDir)))
}

// throwAway removes a tree that a hostile workload has made. It is moved away first, so
// that what cannot be removed does no harm.
func (l *Lease) throwAway(tree string) error {
	if _, err := os.Lstat(tree); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	trash := filepath.Join(l.dir, trashDir)
	if err := os.MkdirAll(trash, 0o700); err != nil {
		return err
	}
	to, err := os.MkdirTemp(trash, "")
	if err != nil {
		return err
	}
	if err := os.Chmod(tree, 0o700); err != nil && !errors.Is(err, fs.ErrPermission) { // to move a directory, its entry ".." is written
		return err
	}
	if err := os.Rename(tree, filepath.Join(to, "x")); err != nil {
		return err
	}
	removeTree(trash)
	return nil
}

// fresh makes a directory for an overlay to work in. What one has left there is moved away: the mark in it, of an overlay that is not synced, keeps the kernel from
// using it again.
func (l *Lease) fresh(work string) error {
	err := os.Mkdir(work, 0o700)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if os.Remove(work) != nil { // it is not empty
		if err := l.moveAway(work); err != nil {
			return err
		}
	}
	return os.Mkdir(work, 0o700)
}

// moveAway puts a tree of ours into the slot's trash.
func (l *Lease) moveAway(tree string) error {
	trash := filepath.Join(l.dir, trashDir)
	if err := os.Mkdir(trash, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for n := 0; ; n++ {
		err := os.Rename(tree, filepath.Join(trash, filepath.Base(filepath.Dir(tree))+"."+strconv.Itoa(n)))
		if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
}

// mostTrash is how many trees may wait to be removed when a session begins.
const mostTrash = 64

// Tidy empties the slot's trash while the session goes on, and no longer: a file system may wait for the disk with each directory. What is left then, the next lease
// removes. It is called when all places are prepared.
func (l *Lease) Tidy() {
	trash := filepath.Join(l.dir, trashDir)
	list, _ := os.ReadDir(trash) // there may be none
	remove := func() {
		for _, e := range list {
			select {
			case <-l.closed:
				return
			default:
				removeTree(filepath.Join(trash, e.Name()))
			}
		}
	}
	if len(list) > mostTrash {
		remove()
		return
	}
	go remove()
}

// removeTree removes what can be removed. Directories may deny their owner, who is us.
func removeTree(tree string) {
	if os.RemoveAll(tree) == nil {
		return
	}
	_ = filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) // of a real directory: nobody else changes the tree
			if err != nil {
				return nil
			}
		}
		return nil
	})
	_ = os.RemoveAll(tree)
}
