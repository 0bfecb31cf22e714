package apply

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// dirKind says what an open directory of the engine is.
type dirKind uint8

const (
	kindNode      dirKind = iota + 1 // n is an object
	kindOwn                          // n is a bucket of the target's blobs
	kindHold                         // n is a bucket of the hold
	kindOlder                        // n is a bucket of step seq's blobs
	kindOlderRoot                    // blobs of step seq
	kindAdopted                      // of object n, in a directory in an older step's blobs
)

type dirKey struct {
	kind dirKind
	seq  uint64
	n    uint64
}

// dropNodes closes the directories that nobody uses: a copy took the place of
// one.
func (e *Engine) dropNodes() {
	e.dirs.Drop(func(k dirKey) bool { return k.kind == kindNode })
}

// entry is a name in an open directory; done gives the directory back.
type entry struct {
	fd   int
	name string
	key  dirKey // zero: nothing to give back
}

func (e *Engine) done(x entry) {
	if x.key.kind != 0 {
		e.dirs.Put(x.key)
	}
}

// dir returns a descriptor (usable as dirfd) of the located directory n. The
// entry's name is empty.
func (e *Engine) dir(n *layer.Node) (entry, error) {
	if n.Obj == format.RootObj {
		return entry{fd: e.Root.FD()}, nil
	}
	key := dirKey{kind: kindNode, n: uint64(n.Obj)}
	if fd := e.dirs.Get(key); fd >= 0 {
		return entry{fd: fd, key: key}, nil
	}
	var chain []*layer.Node
	var keys []dirKey
	for cur := n; cur.Obj != format.RootObj; {
		k := dirKey{kind: kindNode, n: uint64(cur.Obj)}
		if cur != n && e.dirs.Get(k) >= 0 {
			e.dirs.Put(k)
			break
		}
		chain, keys = append(chain, cur), append(keys, k)
		if cur.Place.Kind != layer.InTree {
			break
		}
		if len(chain) > len(e.t.Nodes) {
			return entry{}, fmt.Errorf("%w: directory object %d is inside itself", format.ErrDamaged, n.Obj)
		}
		cur = e.t.Nodes[cur.Place.Dir]
	}
	fd, err := e.dirs.OpenChain(keys, func(i int) (int, error) { return e.openNode(chain[i]) })
	if err != nil {
		return entry{}, err
	}
	return entry{fd: fd, key: key}, nil
}

// openNode opens a directory whose parent, if it is in the tree, is the root
// or in the cache.
func (e *Engine) openNode(c *layer.Node) (int, error) {
	at, err := e.at(c)
	if err != nil {
		return -1, err
	}
	defer e.done(at)
	fd, err := hostfs.OpenDirPathAt(at.fd, at.name)
	if errors.Is(err, posix.EACCES) && c.Place.Kind == layer.InTree {
		if err = e.grant(e.t.Nodes[c.Place.Dir]); err == nil {
			fd, err = hostfs.OpenDirPathAt(at.fd, at.name)
		}
	}
	return fd, err
}

// at returns the directory entry where a located node is.
func (e *Engine) at(n *layer.Node) (entry, error) {
	switch n.Place.Kind {
	case layer.InTree:
		x, err := e.dir(e.t.Nodes[n.Place.Dir])
		x.name = n.Place.Name
		return x, err
	case layer.InOwn:
		return e.bucket(kindOwn, 0, n.Obj, false)
	case layer.InHold:
		return e.bucket(kindHold, 0, n.Obj, false)
	case layer.InMade:
		x, err := e.bucket(kindHold, 0, n.Obj, false)
		x.name = madeName(n.Obj)
		return x, err
	case layer.InOlder:
		x, err := e.bucket(kindOlder, n.RetainedSeq, n.RetainedObj, false)
		if err != nil || n.Place.Name == "" {
			return x, err
		}
		defer e.done(x)
		return e.inAdopted(n, x.fd)
	case layer.InPark:
		return entry{fd: e.Root.FD(), name: parkName(n.Obj)}, nil
	}
	return entry{}, fmt.Errorf("%w: object %d is nowhere", format.ErrDamaged, n.Obj)
}

// inAdopted returns the entry of n inside a directory that an older step
// adopted. bucket is that of the directory.
func (e *Engine) inAdopted(n *layer.Node, bucket int) (entry, error) {
	dir, name := path.Split(n.Place.Name)
	x := entry{name: name, key: dirKey{kind: kindAdopted, n: uint64(n.Obj)}}
	if x.fd = e.dirs.Get(x.key); x.fd >= 0 {
		return x, nil
	}
	fd, err := hostfs.OpenBeneath(bucket, strings.TrimSuffix(dir, "/"), posix.O_PATH|posix.O_DIRECTORY)
	if err != nil {
		return entry{}, err
	}
	e.dirs.Add(x.key, fd)
	x.fd = fd
	return x, nil
}

func madeName(id format.ObjID) string { return "m" + strconv.FormatUint(uint64(id), 10) }

// bucket returns the entry of an object's blob in a blobs directory.
func (e *Engine) bucket(kind dirKind, seq uint64, id format.ObjID, create bool) (entry, error) {
	n := store.ShardOf(id)
	key := dirKey{kind: kind, seq: seq, n: n}
	x := entry{name: store.BlobName(id), key: key}
	if x.fd = e.dirs.Get(key); x.fd >= 0 {
		return x, nil
	}
	base := e.t.Own
	switch kind {
	case kindHold:
		base = e.hold
	case kindOlder:
		root, err := e.olderBlobs(seq)
		if err != nil {
			return entry{}, err
		}
		defer e.done(root)
		base = root.fd
	}
	name := store.ShardName(id)
	if base < 0 {
		return entry{}, fmt.Errorf("open blobs: %w", posix.ENOENT)
	}
	fd, err := hostfs.OpenDirPathAt(base, name)
	if create && errors.Is(err, posix.ENOENT) {
		if err = hostfs.MkdirAt(base, name, 0o700); err == nil {
			fd, err = hostfs.OpenDirPathAt(base, name)
		}
	}
	if err != nil {
		return entry{}, err
	}
	e.dirs.Add(key, fd)
	x.fd = fd
	return x, nil
}

func (e *Engine) olderBlobs(seq uint64) (entry, error) {
	key := dirKey{kind: kindOlderRoot, seq: seq}
	if fd := e.dirs.Get(key); fd >= 0 {
		return entry{fd: fd, key: key}, nil
	}
	dir, ok := e.StepBySeq(seq)
	if !ok {
		return entry{}, posix.ENOENT
	}
	fd, err := hostfs.OpenBeneath(e.Lender.Dir.FD(), dir+"/blobs", posix.O_PATH|posix.O_DIRECTORY)
	if err != nil {
		return entry{}, err
	}
	e.dirs.Add(key, fd)
	return entry{fd: fd, key: key}, nil
}

// grant gives the owner all rights on a directory for the time of the apply.
func (e *Engine) grant(n *layer.Node) error {
	if _, ok := e.granted[n.Obj]; ok {
		return posix.EACCES
	}
	d, err := e.dir(n)
	if err != nil {
		return err
	}
	defer e.done(d)
	st, err := hostfs.StatFD(d.fd)
	if err != nil {
		return err
	}
	if st.Mode&0o700 == 0o700 {
		return posix.EACCES
	}
	if err := e.lend(n, d.fd, &st, 0o700); err != nil {
		return err
	}
	e.granted[n.Obj] = st.Mode
	return nil
}

// withAccess runs f, and once more with rights on the directory d if it was
// refused.
func (e *Engine) withAccess(d *layer.Node, f func() error) error {
	err := f()
	if errors.Is(err, posix.EACCES) {
		switch gerr := e.grant(d); {
		case gerr == nil:
			err = f()
		case interrupts(gerr):
			err = gerr
		}
	}
	return err
}

// Ungrant takes back what grant gave, for directories that the metadata phase
// does not put right anyway.
func (e *Engine) Ungrant() {
	if !e.Begun {
		e.granted = map[format.ObjID]uint32{}
		if err := e.Lender.TakeBack(); err != nil {
			e.Warn("cannot restore modes: %v", err)
		}
		return
	}
	for id, mode := range e.granted {
		d, err := e.dir(e.t.Nodes[id])
		if err == nil {
			err = hostfs.ChmodFD(d.fd, mode)
			e.done(d)
		}
		if err != nil {
			e.Warn("cannot restore the mode of a directory: %v", err)
		}
	}
	e.granted = map[format.ObjID]uint32{}
}
