package apply

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
)

// ask finds out what of the plan the folder would refuse, and leaves that. It changes nothing.
func (e *Engine) ask() {
	for _, x := range e.spoilt {
		e.leaveBind(x.d, x.b, "somebody wrote to it after the step had removed it: the step that is left of this puts it back as it is now")
	}
	for _, path := range e.Lost {
		e.say(trimSlash("/"+path), "path", "it was not kept")
	}
	for _, path := range e.notKept {
		e.sayLeft(format.NotKept(trimSlash("/" + path)))
	}
	for _, d := range e.t.Order {
		e.askDir(d)
	}
	for _, n := range e.t.Order {
		if n.Dirty && n.Place.Kind != layer.Nowhere {
			e.askObject(n)
		}
	}
	if len(e.left.binds) > 0 {
		e.replan()
	}
}

// replan says again of each object what becomes of it: some bindings are left.
func (e *Engine) replan() {
	for _, n := range e.t.Nodes {
		n.Wanted, n.Goes, n.Occupies = false, false, false
	}
	for _, d := range e.t.Order {
		for i := range e.t.Binds[d.Obj] {
			b := &e.t.Binds[d.Obj][i]
			if !b.Wrong {
				continue
			}
			if b.Want != nil {
				b.Want.Goes = true
				b.Want.Wanted = b.Want.Wanted || b.OccNode != b.Want
			}
			if b.OccNode != nil {
				b.OccNode.Occupies = true
			}
		}
	}
}

// askDir asks whether names in the directory d can be taken away and given.
func (e *Engine) askDir(d *layer.Node) {
	binds := e.t.Binds[d.Obj]
	if err := e.left.closed[d]; err != nil {
		reason := e.whyClosed(err)
		for i := range binds {
			e.leaveBind(d, &binds[i], reason)
		}
		for _, n := range e.t.Children[d.Obj] {
			if n.Content || n.Xattrs {
				e.leavePart(n, "content", reason)
			}
		}
		return
	}
	if d.Place.Kind == layer.Nowhere || d.Fresh {
		return
	}
	asked, err := false, error(nil)
	appendOnly := false
	for i := range binds {
		b := &binds[i]
		if !b.Wrong {
			continue
		}
		if !asked {
			asked = true
			appendOnly, err = e.mayChange(d)
		}
		if err != nil {
			e.leaveBind(d, b, e.reasonAt(d, "", err))
		} else if appendOnly && b.Occ.Ino != 0 {
			e.leaveBind(d, b, e.reasonAt(d, "", posix.EPERM))
		}
	}
}

// mayChange tells whether names may be given in d, and whether none may be taken away.
func (e *Engine) mayChange(d *layer.Node) (appendOnly bool, err error) {
	at, err := e.dir(d)
	if err != nil {
		return false, err
	}
	defer e.done(at)
	st, attrs, err := attributesOf(at.fd, "")
	if err != nil {
		return false, nil // what is wrong is seen when it is done
	}
	return attrs&posix.STATX_ATTR_APPEND != 0, mayWrite(at.fd, ".", posix.W_OK|posix.X_OK, st)
}

// mayWrite asks for the rights to name below fd. An owner gives themselves what their file denies.
func mayWrite(fd int, name string, rights uint32, uid uint32) error {
	err := posix.Faccessat(fd, name, rights, false) // with AT_EACCESS, a refusal by an attribute is not told
	switch {
	case errors.Is(err, posix.EACCES) && int(uid) != posix.Geteuid(), errors.Is(err, posix.EPERM), errors.Is(err, posix.EROFS):
		return err
	}
	return nil
}

// attributesOf are the owner and the attributes (STATX_ATTR) of what is at a place.
func attributesOf(fd int, name string) (uid uint32, attrs uint64, err error) {
	return posix.Attributes(fd, name)
}

// askObject asks whether the content and metadata of n, which is somewhere, can be changed.
func (e *Engine) askObject(n *layer.Node) {
	if n.Created || n.Fresh {
		return
	}
	at, name, st, err := e.lookAt(n)
	if err != nil {
		return
	}
	defer e.done(at)
	uid, attrs, err := attributesOf(at.fd, at.name)
	if err != nil || st.IsSymlink() {
		return
	}
	if n.Type == posix.S_IFREG && e.t.Rec.Torn != nil && !e.fills(n, st.Size) {
		e.leaveContent(n, errors.New("the log has lost its content"))
		return
	}
	err = mayWrite(at.fd, name, posix.W_OK, uid)
	fixed := errors.Is(err, posix.EROFS) || attrs&(posix.STATX_ATTR_IMMUTABLE|posix.STATX_ATTR_APPEND) != 0
	if n.Type == posix.S_IFREG && (n.Content || st.Size != n.Meta.Size) {
		if err == nil && attrs&posix.STATX_ATTR_APPEND != 0 {
			err = posix.EPERM
		}
		if err != nil && e.holdsContent(n, at, &st) {
			n.Content, err = false, nil
		}
		if err != nil {
			e.leaveContent(n, err)
			return
		}
	}
	if me := posix.Geteuid(); fixed || me != 0 && int(uid) != me {
		at.name = name
		e.askMeta(n, at, &st)
	}
}

// fills tells whether what is recorded of n's content has all that a file of some size lacks.
func (e *Engine) fills(n *layer.Node, size int64) bool {
	contents := slices.Clone(e.t.Rec.Contents[n.Obj])
	slices.SortFunc(contents, func(a, b format.Content) int { return cmp.Compare(a.Off, b.Off) })
	for _, c := range contents {
		if c.Off <= size {
			size = max(size, c.Off+c.Len)
		}
	}
	return size >= n.Meta.Size
}

// lookAt tells where n is and what it is like. name is for those who want one, also of the root.
func (e *Engine) lookAt(n *layer.Node) (at entry, name string, st hostfs.Stat, err error) {
	if n.Obj == format.RootObj {
		st, err = e.Root.Stat()
		return entry{fd: e.Root.FD()}, ".", st, err
	}
	if at, err = e.at(n); err != nil {
		return at, "", st, err
	}
	if st, err = hostfs.StatAt(at.fd, at.name); err != nil {
		e.done(at)
	}
	return at, at.name, st, err
}

// askMeta leaves metadata that only another user, or nobody, may change.
func (e *Engine) askMeta(n *layer.Node, at entry, st *hostfs.Stat) {
	for _, p := range []struct {
		what  string
		wrong bool
	}{
		{"owner", st.UID != n.Meta.UID || st.GID != n.Meta.GID},
		{"mode", st.Mode&0o7777 != n.Meta.Mode&0o7777},
		{"times", st.Mtime != n.Meta.Mtime},
	} {
		if p.wrong {
			e.leavePart(n, p.what, e.why(at, posix.EPERM))
		}
	}
	if !n.Content { // attributes are compared when they are set
		n.Dirty = n.Xattrs && e.otherXattrs(n, at)
	}
}

// otherXattrs tells whether the attributes of n, which is at a place, are not as recorded.
func (e *Engine) otherXattrs(n *layer.Node, at entry) bool {
	var have []hostfs.Xattr
	var err error
	if at.name == "." {
		have, err = hostfs.AllXattrsFD(at.fd)
	} else {
		have, err = hostfs.AllXattrsAt(at.fd, at.name)
	}
	return err != nil || !sameXattrs(have, e.t.Rec.Xattrs[n.Obj])
}

// holdsContent tells whether n, which is at a place and as st says, has its content already.
func (e *Engine) holdsContent(n *layer.Node, at entry, st *hostfs.Stat) bool {
	if st.Size != n.Meta.Size {
		return false
	}
	fd, err := hostfs.OpenVerified(at.fd, at.name, st.ID, posix.O_RDONLY|posix.O_NONBLOCK)
	if err != nil {
		return false
	}
	defer hostfs.Close(fd)
	same, err := e.t.HasContent(n, fd)
	return same && err == nil
}

// sameXattrs compares attributes, in any order, as far as an undo sets them.
func sameXattrs(a, b []hostfs.Xattr) bool {
	byName := func(a, b hostfs.Xattr) int { return strings.Compare(a.Name, b.Name) }
	left := func(x hostfs.Xattr) bool { return x.Name == hostfs.FlagsName || layer.HeldBack(x.Name) } // flags: only what is new gets them
	a, b = slices.DeleteFunc(slices.Clone(a), left), slices.DeleteFunc(slices.Clone(b), left)
	a, b = slices.SortedFunc(slices.Values(a), byName), slices.SortedFunc(slices.Values(b), byName)
	return slices.EqualFunc(a, b, func(a, b hostfs.Xattr) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) })
}
