package apply

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// Where the undo directory is on another file system than the folder (or a
// part of it), nothing can be renamed between them and moving is copying: what
// leaves the folder and what comes back has another number, and a file with
// several names is there still when a copy of it is in the log.
//
// What leaves the folder is copied before anything is changed ([Engine.Keep]), as a
// capture would: so an apply that the log has no space for fails as if it had not
// been asked for. Run only removes what is copied.

// across is what an apply knows of inodes that it copied.
type across struct {
	copies   map[hostfs.ID]hostfs.ID // what leaves the folder, and its copy
	noted    map[hostfs.ID]bool      // copies that are complete and written down
	kept     map[hostfs.ID]version   // what they were like that are copied
	left     map[hostfs.ID]uint64    // how many names they have that are not copied
	inHold   []keptNode              // copies that an interrupted apply has made
	searched bool
	at       map[hostfs.ID]layer.Location // where the copy of an inode is of which more names may come
}

func newAcross() across {
	return across{copies: map[hostfs.ID]hostfs.ID{}, noted: map[hostfs.ID]bool{}, kept: map[hostfs.ID]version{},
		left: map[hostfs.ID]uint64{}, at: map[hostfs.ID]layer.Location{}}
}

// keptNode is an object of which there is a copy in the hold.
type keptNode struct {
	n  *layer.Node
	st hostfs.Stat // of the copy
}

// oneLess counts a name of st that is copied.
func (a *across) oneLess(st *hostfs.Stat) {
	if _, ok := a.left[st.ID]; !ok {
		a.left[st.ID] = st.Nlink
	}
	if a.left[st.ID] > 0 {
		a.left[st.ID]--
	}
}

// version tells whether a file was written to.
type version struct{ size, mtime int64 }

func versionOf(st *hostfs.Stat) version { return version{st.Size, st.Mtime} }

func parkName(id format.ObjID) string { return ".undo-" + strconv.FormatUint(uint64(id), 10) }

// park moves n, which will be put elsewhere in the folder, into the root
// directory meanwhile, so that it stays what it is.
func (e *Engine) park(d *layer.Node, fd int, name string, n *layer.Node, st *hostfs.Stat) (parked bool, err error) {
	if n == nil || !n.Goes {
		return false, nil
	}
	err = e.move(d, fd, name, e.Root.FD(), parkName(n.Obj), st)
	for _, no := range []error{posix.EXDEV, posix.EEXIST, posix.EACCES, posix.EPERM} {
		if errors.Is(err, no) {
			return false, nil
		}
	}
	if err == nil {
		n.Place = layer.Place{Kind: layer.InPark}
	}
	return err == nil, err
}

// scanParked finds what an interrupted apply has parked.
func (e *Engine) scanParked() {
	if e.hold < 0 {
		return
	}
	entries, err := hostfs.ReadDirAt(e.Root.FD())
	if err != nil {
		return
	}
	for _, x := range entries {
		digits, ok := strings.CutPrefix(x.Name, ".undo-")
		id, err := strconv.ParseUint(digits, 10, 32)
		if !ok || err != nil || parkName(format.ObjID(id)) != x.Name {
			continue
		}
		n := e.t.Nodes[format.ObjID(id)]
		if n == nil || n.Obj == format.RootObj || n.Place.Kind != layer.Nowhere {
			continue
		}
		if st, err := hostfs.StatAt(e.Root.FD(), x.Name); err == nil && st.ID == n.ID {
			n.Compare(&st)
			e.found(n, layer.Place{Kind: layer.InPark}, st.Mode)
		}
	}
}

// Keep copies into the hold what Run will take out of the folder and cannot rename. It is
// called after WriteInverse. Nothing is changed yet, so that an error ends the apply.
func (e *Engine) Keep() error {
	if !hostfs.Apart(e.Root.FD(), e.hold) {
		return nil // what is in a mount of its own in the folder is copied when it is met
	}
	var all []bound
	for _, d := range slices.Backward(e.scanned) {
		for i := range e.t.Binds[d.Obj] {
			if b := &e.t.Binds[d.Obj][i]; b.Wrong && b.Occ.Ino != 0 {
				all = append(all, bound{d, b})
			}
		}
	}
	e.parts.kept = int64(len(all))
	e.parts.total = e.countParts()
	var made []store.Made
	for _, x := range all {
		some, err := e.keep(x.d, x.b)
		if errors.Is(err, errTooDeep) {
			e.leaveBind(x.d, x.b, errTooDeep.Error())
		} else if err != nil {
			return fmt.Errorf("copy %q into the log: %w", e.path(x.d)+"/"+x.b.Name, err)
		}
		made = append(made, some...)
		e.partDone()
	}
	if err := e.note(made); err != nil || len(made) == 0 {
		return err
	}
	return e.durable(e.hold)
}

// durable makes what was written to the file system of a directory survive a power failure, if
// the log promises that.
func (e *Engine) durable(dirfd int) error {
	if !e.Lender.Sync {
		return nil
	}
	if err := e.point("apply.durable"); err != nil {
		return err
	}
	return hostfs.SyncFS(dirfd)
}

// keep copies what is at b in d, unless it stays in the folder, and returns the numbers.
func (e *Engine) keep(d *layer.Node, b *layer.Bind) ([]store.Made, error) {
	where, err := e.whereabouts(d)
	if err != nil || where.inLog {
		return nil, err
	}
	at, err := e.dir(d)
	if err != nil {
		return nil, err
	}
	defer e.done(at)
	st, err := e.statAt(d, at.fd, b.Name)
	if errors.Is(err, posix.ENOENT) || err == nil && st.ID != b.Occ { // Run will see
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	n, id := e.whose(b, st.ID)
	if n != nil && (n.Goes || !st.IsDir() && e.elsewhere(n)) {
		return nil, nil
	}
	if _, ok := e.across.copies[st.ID]; ok && !st.IsDir() {
		e.across.oneLess(&st)
		return nil, nil
	}
	x, err := e.bucket(kindHold, 0, id, true)
	if err != nil {
		return nil, err
	}
	defer e.done(x)
	c := newCopier(e, id, x.fd, x.name)
	c.out, c.early, c.from = true, true, path.Join(string(where.path), b.Name)
	if err := c.tree(at.fd, b.Name, x.fd, x.name, "", 0); err != nil {
		if errors.Is(err, errTooDeep) {
			err = errors.Join(err, hostfs.RemoveAll(context.Background(), x.fd, x.name, nil))
		}
		return nil, err
	}
	c.settle()
	if err := e.point("apply.copied"); err != nil {
		return nil, err
	}
	e.held[id] = true
	e.copied(c, x)
	return c.made, nil
}

// copied takes in what c has copied to x, where it stays.
func (e *Engine) copied(c *copier, x entry) {
	c.remember(e.hold, strconv.FormatUint(x.key.n, 10)+"/"+x.name)
	top := c.made[len(c.made)-1]
	e.across.copies[top.Old], e.across.noted[top.New] = top.New, true
}

// note writes the numbers of copies down.
func (e *Engine) note(made []store.Made) error {
	if len(made) == 0 {
		return nil
	}
	var buf []byte
	for _, m := range made {
		m.Shared = e.across.left[m.Old] > 0
		buf = store.AppendMade(buf, m, e.Volumes)
	}
	return e.writeMade(buf)
}

// moveByCopy moves the file or tree name below fd, which is the object id, out
// of the folder to x, where [Engine.Keep] did not expect that. Its number and those of
// all in it are written down when the copy is complete, and only then it is removed: what
// is killed before is done anew. A spare copy goes to another name and is not told of.
func (e *Engine) moveByCopy(id format.ObjID, fd int, name string, x entry, to string) error {
	c := newCopier(e, id, x.fd, "t"+to)
	c.out = true
	if err := hostfs.RemoveAll(context.Background(), x.fd, c.to, nil); err != nil {
		return err
	}
	if err := c.tree(fd, name, x.fd, c.to, "", 0); err != nil {
		return err
	}
	c.settle()
	if err := hostfs.RenameNew(x.fd, c.to, x.fd, to); err != nil {
		return err
	}
	if err := e.point("apply.copied"); err != nil {
		return err
	}
	if to == x.name {
		if err := e.note(c.made); err != nil {
			return err
		}
		e.copied(c, x)
		top := c.made[len(c.made)-1]
		if n := e.t.Nodes[id]; n != nil && n.Goes {
			e.setMade(n, top.New)
			if e.across.left[top.Old] > 0 {
				e.t.Twins[top.New] = top.Old
			}
		}
	}
	if err := e.durable(x.fd); err != nil {
		return err
	}
	return e.removeKept(fd, name, x.fd)
}

// removeKept removes the file or tree name below fd, of which there is a copy in the hold.
// What was written to since, and what is new in it, is copied to another name below holdFD
// before. What has other names in the folder is no edit from outside for having lost some.
func (e *Engine) removeKept(fd int, name string, holdFD int) error {
	if err := e.point("apply.noted"); err != nil {
		return err
	}
	unlink := store.Unlinker(e.Relink, nil)
	err := hostfs.RemoveAll(context.Background(), fd, name, func(fd int, name string) error {
		if err := e.keepNew(fd, name, holdFD); err != nil {
			return err
		}
		return unlink(fd, name)
	})
	e.dropNodes()
	return err
}

// keepNew copies the file name below fd if the copy in the hold is not as it is, or there is none.
func (e *Engine) keepNew(fd int, name string, holdFD int) error {
	st, err := hostfs.StatAt(fd, name)
	if errors.Is(err, posix.ENOENT) || err == nil && st.IsDir() {
		return nil
	}
	if v, ok := e.across.kept[st.ID]; err != nil || ok && v == versionOf(&st) {
		return err
	}
	delete(e.across.at, st.ID)
	to := e.freshName(holdFD)
	if err := newCopier(e, OtherObj, holdFD, to).tree(fd, name, holdFD, to, "", 0); err != nil {
		return err
	}
	return e.durable(holdFD)
}

// forget removes the file or tree name below fd, in d, which is n or nothing known. Nobody needs it.
func (e *Engine) forget(d *layer.Node, fd int, name string, n *layer.Node) error {
	err := e.withAccess(d, func() error { return store.RemoveTree(context.Background(), fd, name, e.Relink, nil) })
	if e.dropNodes(); err == nil && n != nil {
		n.Place = layer.Place{}
	}
	return err
}

// reopenKept takes up the copies that an interrupted apply has noted.
func (e *Engine) reopenKept(made []store.Made) error {
	olds := map[hostfs.ID]hostfs.ID{}
	for _, m := range made {
		if e.across.noted[m.New] = true; m.Copied {
			e.across.copies[m.Old] = m.New
			olds[m.New] = m.Old
		}
	}
	if len(olds) == 0 {
		return nil
	}
	return hostfs.Walk(e.hold, copyDepth()+1, func(fd int, _ string, d *hostfs.Dirent) error {
		st, err := hostfs.StatAt(fd, d.Name)
		if old, ok := olds[st.ID]; err == nil && ok && !st.IsDir() {
			e.across.kept[old] = versionOf(&st)
		}
		return nil
	})
}

// attachByCopy puts n, which is at from, into the directory d of the folder.
// The copy gets its name when it is complete and its number is written down.
func (e *Engine) attachByCopy(n, d *layer.Node, from entry, fd int, name string) error {
	c := newCopier(e, n.Obj, fd, fmt.Sprintf(".undo-new-%d", n.Obj))
	if err := hostfs.RemoveAll(context.Background(), fd, c.to, nil); err != nil {
		return err
	}
	err := c.tree(from.fd, from.name, fd, c.to, "", 0)
	if err == nil {
		err = e.writeMade(c.records())
	}
	if err == nil {
		err = hostfs.RenameNew(fd, c.to, fd, name)
	}
	if err != nil {
		return errors.Join(err, hostfs.RemoveAll(context.Background(), fd, c.to, nil))
	}
	c.remember(e.Root.FD(), path.Join(e.path(d), name))
	e.setMade(n, c.made[len(c.made)-1].New)
	n.Dirty, n.Brought = !n.Created, true
	if err := e.point("apply.brought"); err != nil {
		return err
	}
	if err := e.durable(fd); err != nil {
		return err
	}
	err = hostfs.RemoveAll(context.Background(), from.fd, from.name, nil)
	e.dropNodes()
	return err
}

// twin finds where the inode is in the folder, or was put by this apply, that
// the inode id in blobs was another name of.
func (e *Engine) twin(id hostfs.ID) (layer.Location, bool) {
	a := &e.across
	if _, ok := e.t.Twins[id]; ok && !a.searched {
		a.searched = true
		found, err := e.t.FindTwins(e.Root)
		if err != nil {
			e.Warn("look for other names of a file: %v", err)
		}
		for c, at := range found {
			a.at[c] = at
		}
	}
	s, ok := a.at[id]
	return s, ok
}
