package mediate

import (
	"context"
	"crypto/rand"
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// relocateEntry is a name in an open directory, which may be O_PATH.
type relocateEntry struct {
	Dir  int
	Name string
}

// relocateLimits bound what one rename copies.
type relocateLimits struct {
	Names int    // in the directory and below
	Depth int    // of directories below it; two are open for each
	Bytes uint64 // of files, by their sizes
}

// errTooMuch is EXDEV: programs then copy by themselves, or say so.
var errTooMuch error = syscall.EXDEV

// times bounds how often the old directory is emptied because somebody has made something in it meanwhile.
const times = 8

// relocateDirectory renames the directory from to to, in the same mount. With noReplace the new name must be free; else an empty directory is
// replaced. It returns a system call's error, EXDEV if the directory is above a limit or holds what cannot be linked, and EINTR
// if wanted, which is asked again and again until the new name is there, says that nobody wants it any more.
func relocateDirectory(from, to relocateEntry, noReplace bool, limits relocateLimits, wanted func() bool) error {
	m := mover{from: from, to: to, limits: limits, wanted: wanted, linked: map[hostfs.ID]bool{}}
	if noReplace {
		m.flags = unix.RENAME_NOREPLACE
	}
	var err error
	if m.mount, err = mountOf(from.Dir); err != nil {
		return err
	}
	for _, e := range []relocateEntry{from, to} {
		if _, err := m.look(e.Dir, e.Name); err != nil && (e != to || !errors.Is(err, syscall.ENOENT)) {
			return err
		}
	}
	old, err := hostfs.OpenDirAt(from.Dir, from.Name)
	if err != nil {
		return relocatePlain(err)
	}
	defer func() { _ = hostfs.Close(old) }()
	made, err := m.begin()
	if err != nil {
		return relocatePlain(err)
	}
	defer func() { _ = hostfs.Close(made) }()
	return m.move(old, made)
}

// mountOf is the mount that an open directory is on.
func mountOf(dir int) (uint64, error) {
	var i rawInfo
	if errno := rawLook(dir, rawEmpty, &i); errno != 0 {
		return 0, errno
	}
	return i.Mount, nil
}

// relocatePlain is the error that the program gets for one that rename(2) does not have: what may not be read can be renamed natively.
func relocatePlain(err error) error {
	for _, e := range []error{syscall.EACCES, syscall.EPERM, syscall.EEXIST, syscall.EMLINK, syscall.EOPNOTSUPP, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, e) {
			return syscall.EXDEV
		}
	}
	return err
}

type mover struct {
	from, to relocateEntry
	flags    uint32
	limits   relocateLimits
	wanted   func() bool

	temporary string // the new directory's name in to.Dir, until it has its own
	back      bool   // what is there already stays: links are put back
	names     int
	bytes     uint64
	mount     uint64 // on which all of it is

	// linked are the files that the new directory has, by the numbers that they have in the old one: an overlay gives the two names
	// of a file that it has copied up different numbers.
	linked map[hostfs.ID]bool
}

// look describes name in dir. What is mounted there is never touched: for a thread of another mount name space the kernel would
// remove or rename what it is mounted on, and take the mount away. Which names of a directory are mounted on, nobody inside can change.
func (m *mover) look(dir int, name string) (i rawInfo, err error) {
	switch errno := rawLook(dir, rawName(name+"\x00"), &i); {
	case errno != 0:
		return i, errno
	case i.Mount != m.mount:
		return i, errTooMuch
	}
	return i, nil
}

// begin makes the new directory, and opens it.
func (m *mover) begin() (made int, err error) {
	m.temporary = ".sandbox-rename-" + rand.Text()
	if err := hostfs.MkdirAt(m.to.Dir, m.temporary, 0o700); err != nil {
		return -1, err
	}
	made, err = hostfs.OpenDirAt(m.to.Dir, m.temporary)
	if err != nil {
		return -1, errors.Join(err, hostfs.RmdirAt(m.to.Dir, m.temporary))
	}
	return made, nil
}

// discard removes the new directory. What it holds has its old names still.
func (m *mover) discard() error {
	return hostfs.RemoveAll(context.Background(), m.to.Dir, m.temporary, func(dir int, name string) error {
		if _, err := m.look(dir, name); err != nil {
			return err
		}
		return hostfs.UnlinkAt(dir, name)
	})
}

func (m *mover) move(old, made int) error {
	if err := m.fill(old, made, 0); err != nil {
		return errors.Join(relocatePlain(err), m.discard())
	}
	replaced, rerr := hostfs.StatAt(m.to.Dir, m.to.Name)
	if err := hostfs.RenameAt(m.to.Dir, m.temporary, m.to.Dir, m.to.Name, m.flags); err != nil {
		return errors.Join(err, m.discard())
	}
	err := m.vanish(old, made)
	if err == nil || !m.restore(old, made) {
		return nil
	}
	if rerr == nil {
		err = errors.Join(err, hostfs.MkdirAt(m.to.Dir, m.to.Name, replaced.Mode&0o7777))
	}
	return relocatePlain(err)
}

// fill makes to, which is empty, what from is.
func (m *mover) fill(from, to, depth int) error {
	entries, err := hostfs.ReadDir(from)
	if err != nil {
		return err
	}
	if m.names += len(entries); !m.back && (depth > m.limits.Depth || m.names > m.limits.Names) {
		return errTooMuch
	}
	for _, e := range entries {
		if !m.back && !m.wanted() {
			return syscall.EINTR
		}
		if err := m.fillOne(from, to, e.Name, depth); err != nil {
			return err
		}
	}
	return likeDirectory(from, to)
}

func (m *mover) fillOne(from, to int, name string, depth int) error {
	is, err := m.look(from, name)
	switch {
	case errors.Is(err, syscall.ENOENT):
		return nil // removed meanwhile
	case err != nil:
		return err
	case is.Type() != syscall.S_IFDIR:
		if m.bytes += is.Size; !m.back && m.bytes > m.limits.Bytes {
			return errTooMuch
		}
		return m.link(from, to, name)
	}
	if err := m.may(hostfs.MkdirAt(to, name, 0o700)); err != nil {
		return err
	}
	if _, err := m.look(to, name); err != nil {
		return err
	}
	return within(from, to, name, func(from, to int) error { return m.fill(from, to, depth+1) })
}

// link gives to what is name in from.
func (m *mover) link(from, to int, name string) error {
	err := m.may(hostfs.LinkAt(from, name, to, name))
	if err != nil || m.back {
		return err
	}
	is, err := m.look(from, name)
	if errors.Is(err, syscall.ENOENT) {
		return nil // removed meanwhile
	}
	m.linked[is.ID] = true
	return err
}

// may is err, or nil if something is there where things are put back.
func (m *mover) may(err error) error {
	if m.back && errors.Is(err, syscall.EEXIST) {
		return nil
	}
	return err
}

// within opens the directory name in two directories for f.
func within(a, b int, name string, f func(a, b int) error) error {
	from, err := hostfs.OpenDirAt(a, name)
	if err != nil {
		return err
	}
	defer func() { _ = hostfs.Close(from) }()
	to, err := hostfs.OpenDirAt(b, name)
	if err != nil {
		return err
	}
	defer func() { _ = hostfs.Close(to) }()
	return f(from, to)
}

// likeDirectory gives the open directory to the attributes of from.
func likeDirectory(from, to int) error {
	st, err := hostfs.StatFD(from)
	if err != nil {
		return err
	}
	have, err := hostfs.StatFD(to)
	if err != nil {
		return err
	}
	if have.UID != st.UID || have.GID != st.GID {
		if err := hostfs.ChownFD(to, int(st.UID), int(st.GID)); err != nil {
			return err
		}
	}
	if err := likeAttributes(from, to); err != nil {
		return err
	}
	return errors.Join(hostfs.ChmodFD(to, st.Mode&0o7777), hostfs.UtimesFD(to, st.Atime, st.Mtime))
}

// likeAttributes gives the directory to the extended attributes of from, access lists among them, and its flags, and no others: it has those that the
// directory above gives to what is made in it.
func likeAttributes(from, to int) error {
	want, err := hostfs.AttributesFD(from, unix.S_IFDIR, nil)
	if err != nil {
		return err
	}
	have, err := hostfs.AllXattrsFD(to)
	if err != nil {
		return err
	}
	hostfs.SetFlagsFD(to, want)
	values := map[string]string{}
	for _, x := range want {
		if x.Name != hostfs.FlagsName {
			values[x.Name] = string(x.Value)
		}
	}
	for _, x := range have {
		if value, ok := values[x.Name]; ok && value == string(x.Value) {
			delete(values, x.Name)
		} else if !ok {
			if err := hostfs.RemoveXattrFD(to, x.Name); err != nil {
				return err
			}
		}
	}
	for name, value := range values {
		if err := hostfs.SetXattrFD(to, name, []byte(value), 0); err != nil {
			return err
		}
	}
	return nil
}

// vanish removes the old directory, which made has all of.
func (m *mover) vanish(old, made int) (err error) {
	for range times {
		if err = m.empty(old, made, 0); err != nil {
			return err
		}
		if err = hostfs.RmdirAt(m.from.Dir, m.from.Name); !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
			return err
		}
	}
	return errTooMuch // somebody writes there all the time
}

// empty removes from a directory what made has of it, and moves there what it has not.
func (m *mover) empty(old, made, depth int) error {
	if st, err := hostfs.StatFD(old); err == nil && st.Mode&0o300 != 0o300 {
		if err := hostfs.ChmodFD(old, st.Mode&0o7777|0o300); err != nil {
			return err
		}
	}
	entries, err := hostfs.ReadDir(old)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := m.emptyOne(old, made, e.Name, depth); err != nil && !errors.Is(err, syscall.ENOENT) {
			return err
		}
	}
	return nil
}

func (m *mover) emptyOne(old, made int, name string, depth int) error {
	is, err := m.look(old, name)
	if err != nil {
		return err
	}
	there, err := m.look(made, name)
	dir := is.Type() == syscall.S_IFDIR
	switch {
	case err != nil && !errors.Is(err, syscall.ENOENT):
		return err
	case err == nil && dir && there.Type() == syscall.S_IFDIR && depth <= m.limits.Depth:
		if err := within(old, made, name, func(old, made int) error { return m.empty(old, made, depth+1) }); err != nil {
			return err
		}
		return hostfs.RmdirAt(old, name)
	case err == nil && !dir && m.linked[is.ID]:
		return hostfs.UnlinkAt(old, name)
	}
	return hostfs.RenameAt(old, name, made, name, 0) // it is newer
}

// restore puts back what vanish has removed, and takes the new name away. It reports whether it could: else the new directory
// is whole and stays.
func (m *mover) restore(old, made int) bool {
	m.back = true
	if m.fill(made, old, 0) != nil {
		return false
	}
	return hostfs.RenameAt(m.to.Dir, m.to.Name, m.to.Dir, m.temporary, 0) == nil && m.discard() == nil
}
