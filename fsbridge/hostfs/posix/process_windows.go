package posix

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/windows"
)

// process is what Linux's kernel keeps of a process: its descriptors.
//
// Order of locks: names, a file's gate, a file's state, appending. Who needs two gates holds names: only who has it alone takes several for himself.
type process struct {
	descriptors numbers[*file]
	patience    patience
	systems     sync.Map // [system], by the number of the volume

	// names is held for writing while a directory gets another name, and for reading by everything that has a handle for a moment
	// only: no handle is below that directory then, save those of descriptors.
	names sync.RWMutex

	appending [64]sync.Mutex // by the inode's number; the last lock of all
}

// here is this process. There can be one only: descriptors are numbers that packages hand to each other.
var here = &process{descriptors: numbers[*file]{limit: mostFiles}, patience: aSecond()}

// mostFiles is how many descriptors there can be. Windows has no bound of its own below 16 million handles.
const mostFiles = 1 << 20

// file is an open file: what its numbers have in common.
type file struct {
	inode
	kind   uint32 // S_IFDIR and so on
	access uint32 // of the handle
	follow bool   // it was opened as what its reparse point stands for
	plain  bool   // see [facts]
	flags  atomic.Int64

	gate   sync.RWMutex   // held for reading while the handle is used
	handle windows.Handle // 0: a rename has lost it

	state    sync.Mutex
	position int64   // in bytes, or in entries
	entries  []entry // of a directory that is being listed; nil: from its start
	flocked  lockKind
	locked   spans
}

func (f *file) end() error {
	if f.handle == 0 {
		return nil
	}
	return windows.CloseHandle(f.handle)
}

func (f *file) has(flag int) bool { return int(f.flags.Load())&flag == flag }

// readable and writable tell what the descriptor was opened for.
func (f *file) readable() bool { return !f.has(O_PATH) && !f.has(O_WRONLY) }
func (f *file) writable() bool {
	return !f.has(O_PATH) && int(f.flags.Load())&O_ACCMODE != O_RDONLY
}

// using is a file while its handle is used.
type using struct {
	*file
	entry *opened[*file]
}

// use returns the file of a descriptor. Call done.
func (p *process) use(fd int) (using, error) {
	o, err := p.descriptors.use(fd)
	if err != nil {
		return using{}, err
	}
	o.file.gate.RLock()
	if o.file.handle == 0 {
		o.file.gate.RUnlock()
		_ = o.done()
		return using{}, ESTALE
	}
	return using{o.file, o}, nil
}

func (u using) done() {
	u.gate.RUnlock()
	_ = u.entry.done()
}

// withFile calls f with the file of a descriptor.
func (p *process) withFile(fd int, f func(using) error) error {
	u, err := p.use(fd)
	if err != nil {
		return err
	}
	defer u.done()
	return from(f(u))
}

// named calls f, which opens something by its name, until nobody else is in the way, for a second.
func (p *process) named(f func() error) error {
	return from(p.patience.try(func() error {
		p.names.RLock()
		defer p.names.RUnlock()
		return f()
	}, inTheWay))
}

// inDirectory calls f with the handle of a directory, as named does.
func (p *process) inDirectory(dirfd int, f func(dir windows.Handle) error) error {
	return p.named(func() error {
		return p.withFile(dirfd, func(u using) error {
			if u.kind != S_IFDIR {
				return ENOTDIR
			}
			return f(u.handle)
		})
	})
}

// withName calls f with a handle of name in dirfd, or of the directory itself for "" and ".", and with the file of dirfd.
func (p *process) withName(dirfd int, name string, o opening, f func(h windows.Handle, near *file) error) error {
	if name == "." {
		name = ""
	}
	if name != "" {
		if err := checkWindowsName(name); err != nil {
			return err
		}
	}
	return p.named(func() error {
		u, err := p.use(dirfd)
		if err != nil {
			return err
		}
		defer u.done()
		if name != "" && u.kind != S_IFDIR {
			return ENOTDIR
		}
		o.follow = name == "" && u.follow
		h, err := ntOpen(u.handle, name, o)
		if err != nil {
			return err
		}
		defer ntClose(h)
		return f(h, u.file)
	})
}
