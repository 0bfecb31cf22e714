package vfs

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Tree serves a working folder. It knows nothing of how requests arrive. Methods are
// safe for concurrent use; their arguments are not trusted. [Errno] says what the
// client is told of their errors.
type Tree struct {
	opts           Options
	hidden         *hidden // nil for nothing
	held           fsbridge.LinkHolder
	lent           bool // hidden belongs to the Tree that Renew made
	timely         bool // see Timely; set before the first request
	renamesRemoved bool // see [hostfs.RenamesRemoved]: nothing that goes is held there
	log            *slog.Logger
	root           *node
	ttl            time.Duration
	euid           uint32
	egid           uint32

	nodes   numberTable[node]
	handles numberTable[handle]
	shards  [64]shard // of nodes, by host ID
	dirs    dirCache

	listing sync.Mutex // while OnList is called

	// renames is held shared while names are walked and exclusively while a
	// rename changes both the host's names and ours. Taken after the Guard.
	renames sync.RWMutex

	spares  openRing[*node] // replaced files that are held
	later   laterFile
	grants  grantList[*node] // see newGrants
	epoch   atomic.Uint64    // of the newest mutation
	fresh   freshList[*node] // see refresh
	heldUps heldUpList
	removed removalSet
	refused refusedPaths

	mutations sync.Pool // *mutation
	buffers   sync.Pool // *[]byte, for listings

	// maxFD is the first descriptor that no open file may have, lastFD the one that
	// the last of them got: the kernel gives the lowest that is free.
	maxFD  int
	lastFD atomic.Int64

	handleClosed func(*handle)

	closed   atomic.Bool
	inFlight atomic.Int64
	counts   [opCount]atomic.Uint64

	locks   lockTable
	leaving time.Duration        // leavingAfter
	onLock  func(nodes []uint64) // see OnLock

	drop     func(node uint64)              // see OnDrop
	heldUp   func(request uint64)           // for [fsbridge.Op.Held]; see OnHeld
	releases func() (performed func() bool) // see InOrder
}

type shard struct {
	mu sync.Mutex
	m  map[hostfs.ID]*node
}

// NewTree makes the tree of o.Root.
func NewTree(o Options) (*Tree, error) {
	if o.Root == nil {
		return nil, errors.New("vfs: no root directory")
	}
	st, err := o.Root.Stat()
	if err != nil {
		return nil, err
	}
	h, err := newHidden(o.Root, o.Hidden)
	if err != nil {
		return nil, err
	}
	return newTree(o, h, &st), nil
}

func newTree(o Options, h *hidden, root *hostfs.Stat) *Tree {
	o.Dirs = cmp.Or(o.Dirs, new(fsbridge.DirLocks))
	t := &Tree{
		opts:   o,
		hidden: h,
		log:    o.Logger,
		maxFD:  o.MaxFD,
		euid:   uint32(posix.Geteuid()),
		egid:   uint32(os.Getegid()),

		leaving:        leavingAfter,
		renamesRemoved: hostfs.RenamesRemoved(o.Root.FD()),
	}
	if t.maxFD <= 0 {
		t.maxFD = mostOpenFiles()
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if t.fresh.Span, t.fresh.End = o.WatchAfter, t.unfresh; o.WatchAfter <= 0 {
		t.fresh.Span = DefaultWatchAfter
	}
	t.handleClosed = func(h *handle) { t.locks.Released(h.Node.id, h.ID) }
	t.newGrants()
	t.held, _ = o.Hooks.(fsbridge.LinkHolder)
	if o.Cache == CacheLong {
		t.ttl = o.TTL
		if t.ttl <= 0 {
			t.ttl = DefaultTTL
		}
	}
	for i := range t.shards {
		t.shards[i].m = make(map[hostfs.ID]*node)
	}
	maxDirs := o.MaxDirFDs
	if maxDirs <= 0 {
		maxDirs = DefaultMaxDirFDs
	}
	t.dirs = dirCache{newDirCache[*node](maxDirs, places{t})}
	t.mutations.New = func() any {
		m := &mutation{tree: t}
		m.op.Validate, m.asked.Count = m.validate, m.countHeld
		return m
	}
	t.buffers.New = func() any { b := make([]byte, 32<<10); return &b }
	t.root = t.newNode(root)
	t.root.id = RootID
	t.shard(root.ID).m[root.ID] = t.root
	return t
}

// OnHeld has f called with the number of a request that waits for somebody's
// decision ([fsbridge.Op.Held]). It is set before the first request.
func (t *Tree) OnHeld(f func(request uint64)) {
	t.heldUp = func(request uint64) {
		t.heldUps.Hold(request)
		f(request)
	}
}

// InOrder has the tree ask which RELEASEs may have been overtaken by the request that it performs: releases returns a function
// that tells whether each is performed that was taken before. It is set before the first request.
func (t *Tree) InOrder(releases func() (performed func() bool)) { t.releases = releases }

// OnDrop has f called with the number of a node whose pages and attributes the client
// must drop. f must not wait. It is set before the first request.
func (t *Tree) OnDrop(f func(node uint64)) { t.drop = f }

// OnLock has f called with the numbers of nodes whose pages and attributes the client
// must have dropped when f returns: somebody inside has just got a lock, and must see what
// somebody outside wrote under his. It is set before the first request.
func (t *Tree) OnLock(f func(nodes []uint64)) { t.onLock = f }

// Timely says that the client forgets what it was told when its time is over, and
// that [Tree.Answered] is called after each answer. It is called before the first
// request.
func (t *Tree) Timely() { t.timely = true }

// Answered is called when the answer to a request is out: then that is done for which
// nobody has to wait.
func (t *Tree) Answered() { t.later.Close() }

// Refuse makes every later request fail with ENOTCONN.
func (t *Tree) Refuse() { t.closed.Store(true) }

// Refuses tells whether [Tree.Refuse] was called.
func (t *Tree) Refuses() bool { return t.closed.Load() }

// InFlight returns the number of requests being served, held ones included.
func (t *Tree) InFlight() int { return int(t.inFlight.Load()) }

// begin counts a request, which end ends. It fails when the tree refuses requests:
// there is nothing to end then.
func (t *Tree) begin(op Operation) error {
	t.counts[op].Add(1)
	if t.closed.Load() {
		return posix.ENOTCONN
	}
	t.inFlight.Add(1)
	return nil
}

func (t *Tree) end() { t.inFlight.Add(-1) }

func (t *Tree) shard(id hostfs.ID) *shard {
	return &t.shards[(id.Ino^id.Dev*31)%uint64(len(t.shards))]
}

// node returns the node with the kernel's number id, or nil if there is none or
// it is hidden.
func (t *Tree) node(id uint64) *node {
	if id == RootID {
		return t.root
	}
	n := t.nodes.Get(id)
	if n != nil && t.hidden.covers(n) {
		return nil
	}
	return n
}

// dir returns the node id if it is a directory that can be looked into.
func (t *Tree) dir(id uint64) (*node, error) {
	n := t.node(id)
	switch {
	case n == nil:
		return nil, posix.ESTALE
	case !n.isDir():
		return nil, posix.ENOTDIR
	}
	return n, nil
}

func (t *Tree) newNode(st *hostfs.Stat) *node {
	n := &node{tree: t}
	n.obj.ID, n.obj.Type, n.obj.Place = st.ID, st.Type(), n
	return n
}

// known returns the node of the inode that st describes if we have one, else a
// fresh one that nobody can find, for an Op to name.
func (t *Tree) known(st *hostfs.Stat, parent *node, name string) *node {
	s := t.shard(st.ID)
	s.mu.Lock()
	n := s.m[st.ID]
	s.mu.Unlock()
	if n == nil || n.obj.Type != st.Type() {
		n = t.newNode(st)
		n.names.Bind(parent, name, true)
	}
	return n
}

// lookup gives the kernel one reference to the node that st describes, found
// as name in parent (no name if parent is nil). fresh says that the inode was
// just made: a node of that number is of a file that is gone.
func (t *Tree) lookup(st *hostfs.Stat, parent *node, name string, fresh bool) *node {
	s := t.shard(st.ID)
	s.mu.Lock()
	n := s.m[st.ID]
	if n == nil || n.obj.Type != st.Type() || fresh && !n.isRoot() {
		n = t.newNode(st)
		t.nodes.Put(n, func(id uint64) { n.id = id })
		s.m[st.ID] = n
	}
	n.lookups++
	s.mu.Unlock()
	if parent != nil && !n.isRoot() {
		t.removed.Take(parent.id, name)
		n.names.Bind(parent, name, st.Nlink < 2 || n.isDir())
	}
	return n
}

// Forget takes back references that the kernel gave up.
func (t *Tree) Forget(nodeID, nlookup uint64) {
	t.counts[OpForget].Add(1)
	if n := t.nodes.Get(nodeID); n != nil { // never the root
		t.forget(n, nlookup)
	}
}

func (t *Tree) forget(n *node, nlookup uint64) {
	s := t.shard(n.obj.ID)
	s.mu.Lock()
	n.lookups -= min(n.lookups, nlookup)
	gone := n.lookups == 0
	if gone {
		t.nodes.Remove(n.id)
		if s.m[n.obj.ID] == n {
			delete(s.m, n.obj.ID)
		}
	}
	s.mu.Unlock()
	if !gone {
		return
	}
	n.dropSpare()
	if n.isDir() {
		t.dirs.Forget(n)
	}
}

// disown makes sure that the inode's number does not lead to this node any
// more, before the inode is freed and the number used again.
func (t *Tree) disown(n *node) {
	s := t.shard(n.obj.ID)
	s.mu.Lock()
	if s.m[n.obj.ID] == n {
		delete(s.m, n.obj.ID)
	}
	s.mu.Unlock()
}

// adopt undoes disown.
func (t *Tree) adopt(n *node) {
	s := t.shard(n.obj.ID)
	s.mu.Lock()
	if s.m[n.obj.ID] == nil && n.lookups > 0 {
		s.m[n.obj.ID] = n
	}
	s.mu.Unlock()
}

// find returns the node of the host inode id, or nil.
func (t *Tree) find(id hostfs.ID) *node {
	s := t.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[id]
}

// NodeID returns the client's number of the inode id, or 0 if the client does not
// know it.
func (t *Tree) NodeID(id hostfs.ID) uint64 {
	if n := t.find(id); n != nil {
		return n.id
	}
	return 0
}

// DirID is NodeID for a directory: 0 if the client knows the inode as something else, which it was.
func (t *Tree) DirID(id hostfs.ID) uint64 {
	if n := t.find(id); n != nil && n.isDir() {
		return n.id
	}
	return 0
}

// Object returns the object of the inode id, or nil if the client does not know it.
func (t *Tree) Object(id hostfs.ID) *fsbridge.Object {
	if n := t.find(id); n != nil {
		return &n.obj
	}
	return nil
}

// OpenDirs returns how many directory descriptors are kept open, for inspection.
func (t *Tree) OpenDirs() int { return t.dirs.Len() }

// HeldIn tells whether an operation that waits for somebody's decision keeps the
// directory locked in the client's kernel.
func (t *Tree) HeldIn(dir uint64) bool {
	n := t.node(dir)
	return n != nil && n.held.Load() > 0
}

// Close closes what is open. It is called after the last request.
func (t *Tree) Close() {
	t.handles.All(func(h *handle) bool { t.closeHandle(h.ID); return true })
	t.locks.Close()
	t.dirs.Close()
	t.later.Close()
	t.fresh.Close()
	if !t.lent {
		t.hidden.close()
	}
	t.grants.Close()
	for _, n := range t.spares.All() {
		if n != nil {
			n.dropSpare()
		}
	}
}

// Lookup finds a name. That there is none is an Entry of no node, if it may be kept.
func (t *Tree) Lookup(dir uint64, name string) (Entry, error) {
	if err := t.begin(OpLookup); err != nil {
		return Entry{}, err
	}
	defer t.end()
	parent, err := t.dir(dir)
	if err != nil {
		return Entry{}, err
	}
	ttl := t.announce(parent)
	d, err := t.dirs.acquire(parent)
	if err != nil {
		return Entry{}, err
	}
	t.removed.Take(dir, name)
	disk, st, err := t.onDisk(d, name)
	t.dirs.Release(d)
	if errors.Is(err, posix.ENOENT) && ttl > 0 {
		return Entry{NameTTL: ttl}, nil
	}
	if err != nil {
		return Entry{}, err
	}
	if disk != name {
		ttl = 0 // who changes it by another spelling makes the client forget that one only
	}
	return t.entry(t.lookup(&st, parent, disk, false), &st, ttl), nil
}

// announce calls OnList before a directory's first use, unless it is fresh, and
// tells how long what is in it may be cached.
func (t *Tree) announce(dir *node) (ttl time.Duration) {
	if t.opts.OnList != nil && dir.flags.Load()&(flagListed|flagFresh) == 0 {
		t.listing.Lock()
		defer t.listing.Unlock()
		if dir.flags.Load()&flagListed == 0 {
			flags := flagListed
			if path, ok := dir.path(); !ok || !t.opts.OnList(path, dir.obj.ID) {
				flags |= flagUnwatched
			}
			dir.flags.Or(flags)
			if flags&flagUnwatched != 0 && t.drop != nil {
				t.drop(dir.id) // what it was told of the directory itself
			}
		}
	}
	return t.ttlIn(dir)
}

// ttlIn is how long the kernel may keep what it learns in a directory, or of it: not
// at all where nobody watches, and a moment where nobody watches yet.
func (t *Tree) ttlIn(dir *node) time.Duration {
	switch flags := dir.flags.Load(); {
	case flags&flagUnwatched != 0:
		return 0
	case flags&flagFresh != 0, flags&flagListed == 0 && t.opts.OnList != nil && dir.isDir():
		return min(t.ttl, freshTTL)
	}
	return t.ttl
}

// StatFS describes the file system of the folder.
func (t *Tree) StatFS() (posix.Statfs_t, error) {
	if err := t.begin(OpStatfs); err != nil {
		return posix.Statfs_t{}, err
	}
	defer t.end()
	return hostfs.Statfs(t.opts.Root.FD())
}

var _ fsbridge.Place = (*node)(nil)
