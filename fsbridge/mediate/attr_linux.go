package mediate

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// attribute is a change of attributes: do performs it on a node of a folder's tree, and
// outside on the open file fd, which may be O_PATH, of the caller's view.
type attribute struct {
	do      func(f *Folder, node uint64) error
	outside func(fd int) error
}

// setAttribute resolves what a call is about and changes its attributes. The kernel never
// performs such a call: until it does, the path or descriptor could have become a granted
// file, which no read-only mount and no Landlock protects.
func (c *call) setAttribute(dirfd, at, how int, a attribute) answer {
	if c.spotArg(&c.at[0], dirfd, at) {
		if a, known := c.at[0].change(c, how, a.do); known {
			return a
		}
	}
	if at < 0 {
		if a, known := c.changeOpen(dirfd, a.do); known {
			return a
		}
	}
	p := &c.a
	if errno := c.find(p, dirfd, at, how|whole|anywhere); errno != 0 {
		return failed(errno)
	}
	defer p.close()
	if errno := p.missing(); errno != 0 {
		return failed(errno)
	}
	return c.changeFound(p, a)
}

// changeFound changes what was found, wherever it is.
func (c *call) changeFound(p *place, a attribute) answer {
	if p.folder == nil || p.folder.readOnly {
		return c.setOutside(p, a.outside)
	}
	return c.changePlace(p, a)
}

// missing says what is wrong with a place where something has to be.
func (p *place) missing() syscall.Errno {
	switch {
	case p.is == nil:
		return syscall.ENOENT
	case p.slash && p.is.Type() != syscall.S_IFDIR:
		return syscall.ENOTDIR
	}
	return 0
}

// setOutside is setAttribute for what is in no folder that can be changed. The caller's
// mounts, and its rights, are ours.
func (c *call) setOutside(p *place, set func(fd int) error) answer {
	if !c.s.ways.Enter() {
		return failed(syscall.EACCES)
	}
	defer c.s.ways.Leave()
	return failed(c.plain(vfs.Errno(c.changeOutside(p, set))))
}

func (c *call) changeOutside(p *place, set func(fd int) error) error {
	c.identity.Workload()
	defer c.identity.Starter()
	fd := p.obj
	if fd < 0 {
		var errno syscall.Errno
		if fd, errno = rawOpenAt(p.dir, p.cName(), unix.O_PATH|unix.O_NOFOLLOW); errno != 0 {
			return errno
		}
		defer rawClose(fd)
	}
	var i rawInfo
	switch errno := rawLook(fd, rawEmpty, &i); {
	case errno != 0:
		return errno
	case i.ID != p.is.ID || i.Mount != p.is.Mount:
		return syscall.ESTALE
	case c.s.guest.Unmounted && !c.s.own(fd):
		return syscall.EROFS
	case !c.s.guest.Unmounted && c.s.onHost(i.Mount):
		return syscall.EPERM
	case !c.valid():
		return syscall.EINTR
	}
	return set(fd)
}

// find is resolve for the path in argument at, or for the descriptor dirfd if at is
// negative.
func (c *call) find(p *place, dirfd, at, how int) syscall.Errno {
	if at < 0 || how&empty != 0 && c.arg(at) == 0 {
		c.identity.Workload() // once for both looks
		defer c.identity.Starter()
		if !c.object(p, dirfd, how) {
			return p.errno
		}
		if at < 0 && c.onlyPath(dirfd) {
			p.close()
			return syscall.EBADF
		}
		return 0
	}
	path, errno := c.pathArg(0, at)
	if errno == 0 && !c.resolve(p, dirfd, path, how) {
		errno = p.errno
	}
	return errno
}

func (c *call) changePlace(p *place, a attribute) answer {
	if errno := p.missing(); errno != 0 {
		return failed(errno)
	}
	if p.granted() {
		if a, known := c.changeGranted(p, a.do); known {
			return a
		}
		if p.is.Nlink == 0 {
			return c.loose(p, a.outside)
		}
	}
	node, err := c.node(p)
	if err != nil {
		return outcome(err)
	}
	defer c.forget(p, node)
	if !c.valid() {
		return failed(syscall.EINTR)
	}
	return outcome(a.do(p.folder, node))
}

// loose has do change a granted file that has no name and that the tree does not know any
// more. Nobody can give it a name again, so there is nothing to be kept.
func (c *call) loose(p *place, do func(fd int) error) answer {
	if !c.valid() {
		return failed(syscall.EINTR)
	}
	defer c.onMount(p)()
	return outcome(do(p.obj))
}

// onMount makes the thread whom the mount of the open file p shows as the workload, until
// the function that it returns is called.
func (c *call) onMount(p *place) func() {
	if p.is.Mount == p.folder.host {
		return func() {}
	}
	c.identity.Workload()
	return c.identity.Starter
}

// changeGranted is changePlace for a granted file, which need not have a name. known is
// false if the tree does not know it: it may have been granted long ago.
func (c *call) changeGranted(p *place, do func(f *Folder, node uint64) error) (a answer, known bool) {
	tree := p.folder.tree
	node, handle, err := p.attach()
	if err != nil {
		return answer{}, false
	}
	defer func() {
		tree.Release(handle)
		tree.Forget(node, 1)
	}()
	if !c.valid() {
		return failed(syscall.EINTR), true
	}
	return outcome(do(p.folder, node)), true
}

// changeOpen is changeGranted for the caller's descriptor fd, by looking alone. It is known if that is
// open, of a file that was granted, has a name and is in the tree. If the tree has lost that name,
// it says ESTALE, and the call is looked at anew.
func (c *call) changeOpen(fd int, do func(f *Folder, node uint64) error) (a answer, known bool) {
	var is rawInfo
	var unusable bool
	if c.again || fd < 0 || !c.whereabouts(fd, &is, &unusable) || unusable || is.Type() != syscall.S_IFREG || is.Nlink == 0 {
		return answer{}, false
	}
	f := c.s.grantedOn(&is)
	if f == nil || f.readOnly {
		return answer{}, false
	}
	node := f.tree.NodeID(is.ID)
	switch {
	case node == 0:
		return answer{}, false
	case !c.valid():
		return failed(syscall.EINTR), true
	}
	return outcome(do(f, node)), true
}

// setAttr sets attributes of what a call is about.
func (c *call) setAttr(dirfd, at, how int, in *vfs.SetAttr) answer {
	return c.setAttribute(dirfd, at, how, attribute{
		func(f *Folder, node uint64) error {
			_, err := f.tree.SetAttr(c.request(), node, in)
			return err
		},
		func(fd int) error { return c.setAttrOutside(fd, in) },
	})
}

// setAttrOutside sets attributes of the open file fd. The workload has no ids but its own to
// give; they are the same ones here.
func (c *call) setAttrOutside(fd int, in *vfs.SetAttr) error {
	if in.Set&vfs.SetMode != 0 {
		mode := in.Mode
		if c.s.onHost(c.a.is.Mount) {
			mode, _ = fsbridge.ModePolicy(c.a.is.Type(), mode)
		}
		return hostfs.ChmodFD(fd, mode)
	}
	if in.Set&(vfs.SetAtime|vfs.SetMtime) == 0 {
		uid, gid := -1, -1
		if in.Set&vfs.SetUID != 0 {
			uid = int(in.UID)
		}
		if in.Set&vfs.SetGID != 0 {
			gid = int(in.GID)
		}
		if uid >= 0 && in.UID != c.s.guest.UID || gid >= 0 && in.GID != c.s.guest.GID {
			return syscall.EPERM
		}
		return hostfs.ChownFD(fd, uid, gid)
	}
	atime, mtime := int64(hostfs.TimeOmit), int64(hostfs.TimeOmit)
	if in.Set&vfs.SetAtime != 0 {
		atime = in.AtimeNano
	}
	if in.Set&vfs.SetMtime != 0 {
		mtime = in.MtimeNano
	}
	return hostfs.UtimesFD(fd, atime, mtime)
}

// atFlags translates AT_* flags; ok is false for others than those allowed.
func atFlags(flags, allowed int) (how int, ok bool) {
	if flags&^allowed != 0 {
		return 0, false
	}
	if flags&unix.AT_SYMLINK_NOFOLLOW == 0 {
		how = follow
	}
	if flags&unix.AT_EMPTY_PATH != 0 {
		how |= empty
	}
	return how, true
}

func (c *call) chmod(dirfd, at, how int, mode uint32) answer {
	return c.setAttr(dirfd, at, how, &vfs.SetAttr{Set: vfs.SetMode, Mode: mode & 07777})
}

// own tells whether fd lies in the guest's own directory, or is it.
func (s *Server) own(fd int) bool {
	path, ok := rawPathOf(fd)
	rest, below := strings.CutPrefix(path, s.guest.Own)
	return ok && below && s.guest.Own != "" && (rest == "" || rest[0] == '/')
}

func (c *call) chown(dirfd, at, how int, uid, gid uint32) answer {
	in := vfs.SetAttr{UID: uid, GID: gid}
	if uid != math.MaxUint32 {
		in.Set |= vfs.SetUID
	}
	if gid != math.MaxUint32 {
		in.Set |= vfs.SetGID
	}
	return c.setAttr(dirfd, at, how, &in)
}

// truncate answers truncate(2). As with attributes, the kernel never performs it: nothing but we keeps a granted file
// from being emptied by its name in /proc.
func (c *call) truncate() answer {
	size := int64(c.arg(1))
	p := &c.a
	if size < 0 {
		return failed(syscall.EINVAL)
	}
	if errno := c.find(p, atCwd, 0, whole|follow|anywhere); errno != 0 {
		return failed(errno)
	}
	defer p.close()
	if errno := p.missing(); errno != 0 {
		return failed(errno)
	}
	switch p.is.Type() {
	case syscall.S_IFREG:
	case syscall.S_IFDIR:
		return failed(syscall.EISDIR)
	default:
		return failed(syscall.EINVAL)
	}
	if c.tooLarge(p, size) {
		return failed(syscall.EFBIG)
	}
	return c.changeFound(p, attribute{
		func(f *Folder, node uint64) error {
			_, err := f.tree.SetAttr(c.request(), node, &vfs.SetAttr{Set: vfs.SetSize, Size: uint64(size), KillPriv: true})
			return err
		},
		func(fd int) error {
			w, err := hostfs.ReopenFD(fd, unix.O_WRONLY)
			if err != nil {
				return err
			}
			return errors.Join(hostfs.TruncateFD(w, size), hostfs.Close(w))
		},
	})
}

// tooLarge tells whether a file would grow beyond what the caller may make (RLIMIT_FSIZE).
func (c *call) tooLarge(p *place, size int64) bool {
	var most unix.Rlimit
	return p.is != nil && uint64(size) > p.is.Size &&
		unix.Prlimit(int(c.n.PID), unix.RLIMIT_FSIZE, nil, &most) == nil && uint64(size) > most.Cur
}

// times reads two times, each of two words, the second of which is in units of unit
// nanoseconds.
func (c *call) times(at int, unit int64, in *vfs.SetAttr) (errno syscall.Errno) {
	in.Set, in.AtimeNano, in.MtimeNano = vfs.SetAtime|vfs.SetMtime, hostfs.TimeOf(true, 0, 0), hostfs.TimeOf(true, 0, 0)
	if c.arg(at) == 0 {
		return 0
	}
	var raw [32]byte
	if errno := c.memory(at, raw[:]); errno != 0 {
		return errno
	}
	for i, t := range []struct {
		set  uint32
		nano *int64
	}{{vfs.SetAtime, &in.AtimeNano}, {vfs.SetMtime, &in.MtimeNano}} {
		sec := binary.NativeEndian.Uint64(raw[i*16:])
		frac := int64(binary.NativeEndian.Uint64(raw[i*16+8:]))
		switch {
		case unit == 1 && frac == unix.UTIME_NOW:
		case unit == 1 && frac == unix.UTIME_OMIT:
			in.Set &^= t.set
		case frac < 0 || frac >= 1e9/unit:
			errno = syscall.EINVAL
		default:
			*t.nano = hostfs.TimeOf(false, sec, uint32(frac*unit))
		}
	}
	return errno
}

func (c *call) utimensat() answer {
	how, ok := atFlags(c.flag(3), unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH)
	at := 1
	if c.arg(1) == 0 && c.fd(0) != atCwd {
		at, ok = -1, c.flag(3) == 0
	}
	var in vfs.SetAttr
	errno := c.times(2, 1, &in)
	switch {
	case errno == syscall.EFAULT:
		return failed(errno)
	case in.Set == 0:
		return answer{} // the path does not matter
	case !ok:
		return failed(syscall.EINVAL)
	case errno != 0: // what is wrong with the path comes first
		p := &c.a
		if err := c.find(p, c.fd(0), at, how|whole|anywhere); err != 0 {
			return failed(err)
		}
		defer p.close()
		if err := p.missing(); err != 0 {
			return failed(err)
		}
		return failed(errno)
	}
	return c.setAttr(c.fd(0), at, how, &in)
}

// utimes answers utimes and futimesat.
func (c *call) utimes(dirfd, at, times int) answer {
	if c.arg(at) == 0 && dirfd != atCwd {
		at = -1
	}
	var in vfs.SetAttr
	if errno := c.times(times, 1000, &in); errno != 0 {
		return failed(errno)
	}
	return c.setAttr(dirfd, at, follow, &in)
}

func (c *call) utime() answer {
	in := vfs.SetAttr{Set: vfs.SetAtime | vfs.SetMtime, AtimeNano: hostfs.TimeOf(true, 0, 0), MtimeNano: hostfs.TimeOf(true, 0, 0)}
	if c.arg(1) != 0 {
		var raw [16]byte
		if errno := c.memory(1, raw[:]); errno != 0 {
			return failed(errno)
		}
		in.AtimeNano = hostfs.TimeOf(false, binary.NativeEndian.Uint64(raw[:]), 0)
		in.MtimeNano = hostfs.TimeOf(false, binary.NativeEndian.Uint64(raw[8:]), 0)
	}
	return c.setAttr(atCwd, 0, follow, &in)
}

// access answers the calls that ask whether something may be written to: in the
// guest's view nothing may.
func (c *call) access(dirfd, at int, mode uint32, flags int) answer {
	how, ok := atFlags(flags, unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH|unix.AT_EACCESS)
	if !ok || mode&^7 != 0 {
		return native
	}
	if c.spotArg(&c.at[0], dirfd, at) {
		if a, known := c.at[0].access(c, mode); known {
			return a
		}
	}
	p := &c.a
	if errno := c.find(p, dirfd, at, how|whole); errno != 0 {
		return c.lost(errno)
	}
	defer p.close()
	look := func(fd int) error { return unix.Faccessat2(fd, "", mode, unix.AT_EACCESS|unix.AT_EMPTY_PATH) }
	if p.granted() { // on a mount that is writable
		return c.loose(p, look)
	}
	return c.changePlace(p, attribute{func(f *Folder, node uint64) error { return f.access(p.is, node, mode) }, look})
}

// access asks the host's mount, by a name: to open a directory takes rights of its own.
func (f *Folder) access(is *rawInfo, node uint64, mode uint32) error {
	o := f.tree.Object(is.ID)
	if o == nil || f.tree.NodeID(is.ID) != node {
		return syscall.ESTALE
	}
	place, name, flags := o.Place, "", unix.AT_EACCESS|unix.AT_EMPTY_PATH
	if node != vfs.RootID {
		parent, n, ok := place.Binding()
		if !ok {
			return syscall.ESTALE
		}
		place, name, flags = parent.Place, n, unix.AT_EACCESS|unix.AT_SYMLINK_NOFOLLOW
	}
	fd, err := place.Open(unix.O_PATH)
	if err != nil {
		return err
	}
	defer rawClose(fd)
	return unix.Faccessat2(fd, name, mode, flags)
}

// onlyPath tells whether a descriptor of the caller's, which was just found, is O_PATH.
func (c *call) onlyPath(fd int) bool {
	var link rawInfo
	c.identity.Workload()
	errno := rawLook(c.th.Proc, rawNumbered(c.small[:], "fd/", uint64(fd)), &link)
	c.identity.Starter()
	if errno == 0 && link.Mode&0o600 != 0 {
		return false // the mode of the link in /proc says what it is open for
	}
	info, errno := c.procFile(rawNumbered(c.small[:], "fdinfo/", uint64(fd)), 0)
	if errno != 0 {
		return false
	}
	defer rawClose(info)
	c.identity.Workload()
	data, err := os.ReadFile("/proc/self/fd/" + strconv.Itoa(info))
	c.identity.Starter()
	flags, ok := procFlags(data)
	return err == nil && ok && flags&unix.O_PATH != 0
}
