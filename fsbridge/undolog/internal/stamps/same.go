package stamps

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/gitfiles"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// A file that is not as its stamp says may hold what it held all the same: an editor has saved it again, a person has
// taken an edit back, git has refreshed its index. Nothing is lost then by an undo. So the end of a step also hashes what
// some of its files are, by name: kind, mode, owner, attributes and content. Directories have none: what is in a new one is
// unknown.

// How much is hashed at the end of one step: it must not wait for long. What is beyond that is compared by its stamp alone.
const (
	sameFile  = 1 << 20
	sameFiles = 1000
	sameBytes = 32 << 20
)

// left is what may still be hashed.
type left struct{ files, bytes int64 }

func (l *left) take(n int64) bool {
	if l.files < 1 || l.bytes < n {
		return false
	}
	l.files--
	l.bytes -= n
	return true
}

// putSame notes what a name holds, if that is known; 0: it is not. It needs mu.
func (t *Table) putSame(k nameKey, same uint64) {
	v, ok := t.names[k]
	if !ok || same == 0 {
		return
	}
	v.same = same
	t.names[k] = v
	b := append(t.buf, opSame)
	b = binary.AppendUvarint(b, uint64(k.dir))
	b = binary.LittleEndian.AppendUint64(b, k.hash)
	t.buf = binary.LittleEndian.AppendUint64(b, same)
}

// holdsTheSame says that a name holds what the steps left under it, although its stamp is another; it is taken in
// then. It needs mu.
func (t *Table) holdsTheSame(k nameKey, want nameValue, n *Seen) bool {
	switch {
	case want.same == 0:
		return false
	case n.Stat == nil:
		if want.same != absent {
			return false
		}
	case want.same != t.sameOf(n, &left{1, gitfiles.MaxIndexBytes}):
		return false
	}
	t.accept(n)
	return true
}

// sameOf hashes what a name holds; 0: that is not known.
func (t *Table) sameOf(n *Seen, budget *left) uint64 {
	if n.Stat == nil || !n.Stat.IsRegular() && !n.Stat.IsSymlink() {
		return 0
	}
	index := gitfiles.IsIndex(n.Name) && n.Stat.IsRegular()
	most := int64(sameFile)
	if index {
		most = gitfiles.MaxIndexBytes
	}
	if n.Stat.Size > most || !budget.take(n.Stat.Size) {
		return 0
	}
	dir := n.FD
	if dir <= 0 {
		if t.cfg.Root == nil {
			return 0
		}
		path := n.Path
		if path == "" {
			path = "."
		}
		fd, err := t.cfg.Root.OpenPath(path, posix.O_PATH|posix.O_DIRECTORY)
		if err != nil {
			return 0
		}
		defer hostfs.Close(fd)
		dir = fd
	}
	content, err := contentAt(dir, n.Name, n.Stat)
	if err != nil {
		return 0
	}
	if sum, ok := gitfiles.IndexDigest(content); index && ok {
		content = sum[:]
	}
	h := sha256.New()
	var b []byte
	for _, v := range []uint32{n.Stat.Mode, n.Stat.UID, n.Stat.GID, uint32(n.Stat.Nlink)} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	h.Write(b)
	attrs, err := attributesAt(dir, n.Name)
	if err != nil {
		return 0
	}
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(attrs))))
	h.Write(attrs)
	h.Write(content)
	return binary.LittleEndian.Uint64(h.Sum(nil)) | 1
}

// absent is the hash of a name that binds nothing; others are odd.
const absent = 2

// lift takes paths out of the barriers that an undo down to the step with the given seq would cross: those where
// what the steps left is again, and no later step has touched. It needs mu.
func (t *Table) lift(seq uint64) {
	for _, b := range slices.Clone(t.barriers) {
		if b.seq < seq || len(b.was) == 0 {
			continue
		}
		stay := slices.DeleteFunc(slices.Clone(b.paths), func(p string) bool { return t.takenBack(&b, p) })
		if len(stay) == len(b.paths) {
			continue
		}
		t.dropBarrier(b.id)
		if b.paths = stay; len(stay) > 0 {
			t.putBarrier(b)
		}
	}
	slices.SortFunc(t.barriers, func(a, b barrier) int { return cmp.Compare(a.id, b.id) })
}

// takenBack says that a path of a barrier is as the steps had left it.
func (t *Table) takenBack(b *barrier, path string) bool {
	was := b.was[path]
	if was == 0 || t.cfg.Root == nil {
		return false
	}
	dir, name := ".", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, name = path[:i], path[i+1:]
	}
	fd, err := t.cfg.Root.OpenPath(dir, posix.O_PATH|posix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer hostfs.Close(fd)
	home, err := hostfs.StatFD(fd)
	if err != nil {
		return false
	}
	n := Seen{Dir: home.ID, FD: fd, Name: name, Path: dir}
	number, known := t.dirs[home.ID]
	if v, ok := t.names[nameKey{nameHash(name), number}]; !known || !ok || v.seq > b.seq {
		return false
	}
	st, err := hostfs.StatAt(fd, name)
	if errors.Is(err, posix.ENOENT) {
		return was == absent
	}
	n.Stat = &st
	return err == nil && was == t.sameOf(&n, &left{1, gitfiles.MaxIndexBytes})
}

// contentAt reads a small file, or where a symlink leads to.
func contentAt(dir int, name string, st *hostfs.Stat) ([]byte, error) {
	if st.IsSymlink() {
		target, err := hostfs.ReadlinkAt(dir, name)
		return []byte(target), err
	}
	fd, err := hostfs.OpenVerified(dir, name, st.ID, posix.O_RDONLY|posix.O_NONBLOCK|posix.O_NOATIME)
	if errors.Is(err, posix.EPERM) { // O_NOATIME is the owner's
		fd, err = hostfs.OpenVerified(dir, name, st.ID, posix.O_RDONLY|posix.O_NONBLOCK)
	}
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(fd)
	buf := make([]byte, st.Size+1)
	n, err := hostfs.PreadFull(fd, buf, 0)
	if err == nil && int64(n) != st.Size {
		err = posix.ESTALE
	}
	return buf[:max(n, 0)], err
}

// attributesAt lists the extended attributes of a name with their values.
func attributesAt(dir int, name string) ([]byte, error) {
	names, err := hostfs.XattrNamesAt(dir, name)
	if errors.Is(err, posix.ENOTSUP) || len(names) == 0 && err == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list := bytes.Split(bytes.TrimSuffix(names, []byte{0}), []byte{0})
	var all []byte
	buf := make([]byte, 64<<10)
	for _, attr := range list {
		n, err := hostfs.GetXattrAt(dir, name, string(attr), buf)
		if err != nil {
			return nil, err
		}
		all = append(append(append(all, attr...), 0), buf[:n]...)
		all = binary.LittleEndian.AppendUint32(all, uint32(n))
	}
	return all, nil
}
