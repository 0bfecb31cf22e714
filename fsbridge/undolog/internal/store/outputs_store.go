package store

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// OutputsName is the directory's in the undo directory.
const OutputsName = "output"

const (
	maxStep = 1 << 20  // bytes of a file
	maxLog  = 64 << 20 // and of all
	// reserve is the part of a file in which only lines without data are written.
	reserve = 64 << 10
)

// Outputs is the directory.
type Outputs struct {
	root int   // the undo directory's descriptor; not closed
	most int64 // bytes of all files

	mu    sync.Mutex
	shut  bool
	sizes map[format.StepID]int64 // of the files that are there
	total int64
}

// OpenOutputs looks what is in the directory below root, and removes what cannot be a file of the format. A directory that is
// missing is made by the first [Outputs.Keep]. After an error the Store can be used all the same, and knows of no files.
func OpenOutputs(root int) (*Outputs, error) {
	s := &Outputs{root: root, most: maxLog, sizes: map[format.StepID]int64{}}
	dir, err := hostfs.OpenDirAt(root, OutputsName)
	if errors.Is(err, posix.ENOENT) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer hostfs.Close(dir)
	list, err := hostfs.ReadDirAt(dir)
	if err != nil {
		return s, err
	}
	for _, d := range list {
		id, perr := ParseStepID(d.Name)
		st, serr := hostfs.StatAt(dir, d.Name)
		if perr != nil || serr != nil || !ours(&st) {
			err = errors.Join(err, hostfs.RemoveAll(context.Background(), dir, d.Name, nil))
			continue
		}
		s.sizes[id] = st.Size
		s.total += st.Size
	}
	return s, err
}

// ours tells whether a file can be one that Keep has made.
func ours(st *hostfs.Stat) bool { return st.IsRegular() && st.Nlink == 1 && st.Size <= maxStep }

// Keep adds the output of a command of a step, unless known says that there is no such step. known is called with
// the lock held that [Outputs.Sweep] takes. A step that has its 1 MiB already gets no more.
func (s *Outputs) Keep(id format.StepID, o format.CommandOutput, known func(format.StepID) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return format.ErrClosed
	}
	if !known(id) {
		return nil
	}
	dir, err := hostfs.OpenSubdir(s.root, OutputsName, true)
	if err != nil {
		return err
	}
	defer hostfs.Close(dir)
	name := FormatStepID(id)
	fd, size, err := openOurs(dir, name)
	if err != nil {
		return err
	}
	n, err := add(fd, size, o)
	err = errors.Join(err, hostfs.Close(fd))
	s.total += size + n - s.sizes[id]
	s.sizes[id] = size + n
	if size+n == 0 {
		err = errors.Join(err, s.remove(dir, id))
	}
	return errors.Join(err, s.evict(dir, id))
}

// openOurs opens the file name below dir, and makes it if it is missing. What cannot be ours is replaced.
func openOurs(dir int, name string) (fd int, size int64, err error) {
	for range 2 {
		fd, err = hostfs.OpenAt(dir, name, posix.O_RDWR|posix.O_CREAT|posix.O_NONBLOCK, 0o600)
		if err == nil {
			st, serr := hostfs.StatFD(fd)
			if serr == nil && ours(&st) {
				return fd, st.Size, nil
			}
			_ = hostfs.Close(fd)
			err = errors.Join(serr, fmt.Errorf("%s/%s is not a file of this program's", OutputsName, name))
		}
		if full(err) {
			break
		}
		if rerr := hostfs.RemoveAll(context.Background(), dir, name, nil); rerr != nil {
			return -1, 0, errors.Join(err, rerr)
		}
	}
	return -1, 0, err
}

// full tells whether there is no room, which says nothing against the file that is there.
func full(err error) bool {
	return errors.Is(err, posix.ENOSPC) || errors.Is(err, posix.EDQUOT) || errors.Is(err, posix.EMFILE) || errors.Is(err, posix.ENFILE)
}

// add appends a line to a file of this size, and returns by how much the file grew. A line that cannot be written whole is taken back.
func add(fd int, size int64, o format.CommandOutput) (int64, error) {
	lead := ""
	if size > 0 {
		last := make([]byte, 1)
		if _, err := hostfs.PreadFull(fd, last, size-1); err != nil {
			return 0, err
		}
		if last[0] != '\n' { // somebody was killed
			lead = "\n"
		}
	}
	line, err := encode(lead, o)
	if err == nil && size+int64(len(line)) > maxStep-reserve {
		o.Data, o.LeftOut, o.Cut = nil, o.Bytes, 0
		line, err = encode(lead, o)
	}
	if err != nil || size+int64(len(line)) > maxStep {
		return 0, err
	}
	if err := hostfs.PwriteFull(fd, line, size); err != nil {
		return 0, errors.Join(err, hostfs.TruncateFD(fd, size))
	}
	return int64(len(line)), nil
}

// evict removes files of the oldest steps until there are no more bytes than there may be. That of spared stays.
func (s *Outputs) evict(dir int, spared format.StepID) (err error) {
	for s.total > s.most && err == nil {
		oldest := format.StepID(0)
		for id := range s.sizes {
			if id != spared && (oldest == 0 || id < oldest) {
				oldest = id
			}
		}
		if oldest == 0 {
			return nil
		}
		err = s.remove(dir, oldest)
	}
	return err
}

// remove removes a file. The lock is held.
func (s *Outputs) remove(dir int, id format.StepID) error {
	err := hostfs.RemoveAll(context.Background(), dir, FormatStepID(id), nil)
	if err == nil {
		s.total -= s.sizes[id]
		delete(s.sizes, id)
	}
	return err
}

// Sweep removes the files of all steps that are not in known, which is called with the lock held. If there are
// no files, it is not called.
func (s *Outputs) Sweep(known func() map[format.StepID]struct{}) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut || len(s.sizes) == 0 {
		return nil
	}
	stay := known()
	dir := -1
	for id := range s.sizes {
		if _, ok := stay[id]; ok {
			continue
		}
		if dir < 0 {
			if dir, err = hostfs.OpenDirAt(s.root, OutputsName); err != nil {
				return err
			}
			defer hostfs.Close(dir)
		}
		err = errors.Join(err, s.remove(dir, id))
	}
	return err
}

// Read returns what the commands of a step wrote, in the order in which they ended; nothing if nothing was kept.
func (s *Outputs) Read(id format.StepID) ([]format.CommandOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return nil, format.ErrClosed
	}
	dir, err := hostfs.OpenDirAt(s.root, OutputsName)
	if errors.Is(err, posix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: output: %w", format.ErrDamaged, err)
	}
	defer hostfs.Close(dir)
	b, err := hostfs.ReadSmall(dir, FormatStepID(id), maxStep)
	if errors.Is(err, posix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: output: %w", format.ErrDamaged, err)
	}
	return decode(b), nil
}

// Close lets nothing more be read or written: the undo directory's descriptor is about to be closed. Nil has nothing.
func (s *Outputs) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
}
