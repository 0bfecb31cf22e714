package posix

import (
	"encoding/binary"
	"strings"

	"golang.org/x/sys/windows"
)

// below is a descriptor of something in a directory that is renamed, or of the directory itself.
type below struct {
	*opened[*file]
	path string // on its volume
	rest string // of path, below the directory: empty, or with a backslash before it
}

// directory renames a directory. Windows refuses to rename one as long as anything below it is open, and this process is full
// of descriptors: they are closed and opened again, with the same numbers. Nobody uses them meanwhile, as their gates are taken, and nobody
// opens another, as p.names is. (Wine lets it be renamed, but its handles have their old names then, and what is opened by them is
// looked for there. They are opened again, too.)
func (r *renaming) directory(to using) error {
	into, err := pathOnVolume(to.handle)
	if err != nil {
		return err
	}
	old, err := pathOnVolume(r.h)
	if err != nil {
		return err
	}
	if to.volume == r.what.volume && isBelow(into, old) {
		return EINVAL
	}
	inside := r.inside(old)
	defer release(inside)
	done, err := r.perform()
	if busy := from(err); (busy == EACCES || busy == EBUSY) && len(inside) > 0 {
		return r.closed(inside)
	}
	if err != nil || !done {
		return r.blamed(err)
	}
	for _, b := range inside {
		r.follow(b.file, b.path, b.rest)
	}
	return nil
}

// isBelow tells whether a path is dir or in it.
func isBelow(path, dir string) bool {
	return len(path) >= len(dir) && strings.EqualFold(path[:len(dir)], dir) && (len(path) == len(dir) || path[len(dir)] == '\\')
}

// inside finds the descriptors that are below the directory, whose path is dir, and takes their gates. What has been removed is not below.
func (r *renaming) inside(dir string) (found []below) {
	for _, o := range r.descriptors.all(func(f *file) bool { return f.volume == r.what.volume }) {
		o.file.gate.RLock() // nobody waits to write: only who has p.names does, and that is us
		path, err := pathOnVolume(o.file.handle)
		is := err == nil && isBelow(path, dir) && !removed(o.file.handle)
		o.file.gate.RUnlock()
		if is {
			o.file.gate.Lock()
			found = append(found, below{o, path, path[len(dir):]})
			continue
		}
		_ = o.done()
	}
	return found
}

// release gives back what inside has found.
func release(inside []below) {
	for _, b := range inside {
		b.file.gate.Unlock()
		_ = b.done()
	}
}

// removed tells whether a file has lost its name.
func removed(h windows.Handle) bool {
	var b [24]byte
	return ntQuery(h, fileStandardInformation, b[:]) != nil || b[20] != 0 || binary.LittleEndian.Uint32(b[16:]) == 0
}

// closed renames while what is below is closed.
func (r *renaming) closed(inside []below) error {
	for _, b := range inside {
		if b.rest != "" { // the directory itself may be open
			b.file.leave()
		}
	}
	done, err := r.perform()
	name := r.newName
	dir := r.to
	if !done {
		name, dir = r.oldName, r.from
	}
	for _, b := range inside {
		if b.rest != "" {
			b.file.enter(dir.handle, name+b.rest)
		} else if done {
			r.follow(b.file, b.path, "")
		}
	}
	return r.blamed(err)
}

// blamed tells, of a rename that was denied, whether we lack a right, or somebody else has something open below: EBUSY. That the directory may
// lose its name was asked when it was opened.
func (r *renaming) blamed(err error) error {
	if from(err) != EACCES {
		return err
	}
	const addDirectory = windows.FILE_APPEND_DATA
	h, denied := ntOpen(r.to.handle, "", opening{access: addDirectory})
	if denied != nil {
		return err
	}
	ntClose(h)
	return EBUSY
}

// follow has a descriptor go on with the new name if its handle has still the old one. f.gate is held.
func (r *renaming) follow(f *file, old, rest string) {
	path, err := pathOnVolume(f.handle)
	if err != nil || path != old {
		return
	}
	h, err := f.again(r.to.handle, r.newName+rest)
	if err != nil {
		return // what was opened before works as before
	}
	f.leave()
	f.arrive(h)
}

// leave closes the handle. f.gate is held.
func (f *file) leave() {
	ntClose(f.handle)
	f.handle = 0
}

// enter opens the file again, by its path below dir, or by its id. If neither leads to it, all that is done with the descriptor gives ESTALE.
func (f *file) enter(dir windows.Handle, path string) {
	var h windows.Handle
	err := aSecond().try(func() (err error) {
		h, err = f.again(dir, path)
		return err
	}, inTheWay)
	if err != nil {
		if h, err = f.byID(dir); err != nil {
			return
		}
	}
	f.arrive(h)
}

// again opens the same file once more.
func (f *file) again(dir windows.Handle, path string) (windows.Handle, error) {
	return f.verified(ntOpen(dir, path, opening{access: f.access, follow: f.follow}))
}

// byID opens it by its number, wherever it is on its volume. That of ReFS has 16 bytes.
func (f *file) byID(volume windows.Handle) (windows.Handle, error) {
	id := f.id[:]
	if binary.LittleEndian.Uint64(id[8:]) == 0 {
		id = id[:8]
	}
	return f.verified(ntOpenID(volume, id, opening{access: f.access, options: windows.FILE_OPEN_BY_FILE_ID, follow: f.follow}))
}

// verified closes what is another file.
func (f *file) verified(h windows.Handle, err error) (windows.Handle, error) {
	if err != nil {
		return 0, err
	}
	now, err := inodeOf(h)
	if err == nil && now != f.inode {
		err = ESTALE
	}
	if err != nil {
		ntClose(h)
		return 0, err
	}
	return h, nil
}

// arrive goes on with a new handle, which gets the locks of the old one. If somebody took one in the moment between, the descriptor is as
// if its file were gone: nobody must believe that it has the lock.
func (f *file) arrive(h windows.Handle) {
	f.handle = h
	f.state.Lock()
	defer f.state.Unlock()
	if err := f.relock(); err != nil {
		f.leave()
	}
}
