package fuseproto

import (
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// FileSystem is a [vfs.Tree] as go-fuse asks for it. Methods are safe for concurrent
// use.
type FileSystem struct {
	fuse.RawFileSystem // answers ENOSYS to what is not implemented below

	tree  *vfs.Tree
	locks bool // the client asks for the locks of its processes
}

var _ fuse.RawFileSystem = (*FileSystem)(nil)

// NewFileSystem serves t.
func NewFileSystem(t *vfs.Tree) *FileSystem {
	return &FileSystem{RawFileSystem: fuse.NewDefaultRawFileSystem(), tree: t}
}

func status(err error) fuse.Status { return fuse.Status(vfs.Errno(err)) }

func request(cancel <-chan struct{}, h *fuse.InHeader) vfs.Request {
	const nobody = 1<<32 - 1 // whom the kernel cannot name
	return vfs.Request{
		PID: h.Pid, ID: h.Unique, Cancel: cancel,
		UID: h.Uid, GID: h.Gid, Known: h.Uid != nobody && h.Gid != nobody,
	}
}

// making is request for what makes something. Kernels without CAP_DONT_MASK have applied the umask; it changes nothing then.
func making(cancel <-chan struct{}, h *fuse.InHeader, umask uint32) vfs.Request {
	r := request(cancel, h)
	r.Umask = umask
	return r
}

// String names the file system in mount tables.
func (f *FileSystem) String() string { return "sandbox" }

// OnUnmount exists for the interface: whoever made the tree closes it.
func (f *FileSystem) OnUnmount() {}

func fillAttr(a *vfs.Attr, out *fuse.Attr) {
	*out = fuse.Attr{
		Ino: a.Ino, Size: a.Size, Blocks: a.Blocks, Mode: a.Mode, Nlink: a.Nlink,
		Owner: fuse.Owner{Uid: a.UID, Gid: a.GID}, Rdev: a.Rdev, Blksize: a.Blksize,
	}
	out.Atime, out.Atimensec = seconds(a.AtimeNano)
	out.Mtime, out.Mtimensec = seconds(a.MtimeNano)
	out.Ctime, out.Ctimensec = seconds(a.CtimeNano)
}

func seconds(nano int64) (uint64, uint32) {
	s, n := hostfs.Seconds(nano)
	return uint64(s), uint32(n)
}

func fillEntry(e *vfs.Entry, out *fuse.EntryOut) {
	out.NodeId = e.Node
	out.SetEntryTimeout(e.NameTTL)
	out.SetAttrTimeout(e.Attr.TTL)
	fillAttr(&e.Attr, &out.Attr)
}

// entry answers a request that gives the kernel a reference to a node.
func entry(e vfs.Entry, err error, out *fuse.EntryOut) fuse.Status {
	if err == nil {
		fillEntry(&e, out)
	}
	return status(err)
}

func attributes(a vfs.Attr, err error, out *fuse.AttrOut) fuse.Status {
	if err == nil {
		out.SetTimeout(a.TTL)
		fillAttr(&a, &out.Attr)
	}
	return status(err)
}

func fillOpen(o vfs.Opened, out *fuse.OpenOut) {
	out.Fh = o.Handle
	if o.KeepCache {
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	}
}

// Lookup answers LOOKUP.
func (f *FileSystem) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	e, err := f.tree.Lookup(h.NodeId, name)
	return entry(e, err, out)
}

// Forget answers FORGET and BATCH_FORGET.
func (f *FileSystem) Forget(node, n uint64) { f.tree.Forget(node, n) }

// StatFs answers STATFS.
func (f *FileSystem) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	s, err := f.tree.StatFS()
	if err != nil {
		return status(err)
	}
	*out = fuse.StatfsOut{
		Blocks: s.Blocks, Bfree: s.Bfree, Bavail: s.Bavail, Files: s.Files, Ffree: s.Ffree,
		Bsize: uint32(s.Bsize), Frsize: uint32(s.Frsize), NameLen: uint32(min(s.Namelen, hostfs.NameMax)),
	}
	return fuse.OK
}

// GetAttr answers GETATTR.
func (f *FileSystem) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	fh := uint64(0)
	if in.Flags()&fuse.FUSE_GETATTR_FH != 0 {
		fh = in.Fh()
	}
	a, err := f.tree.GetAttr(in.NodeId, fh)
	return attributes(a, err, out)
}

// SetAttr answers SETATTR.
func (f *FileSystem) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	s := vfs.SetAttr{
		Mode: in.Mode, UID: in.Uid, GID: in.Gid, Size: in.Size, KillPriv: in.Valid&fuse.FATTR_KILL_SUIDGID != 0,
		AtimeNano: hostfs.TimeOf(in.Valid&fuse.FATTR_ATIME_NOW != 0, in.Atime, in.Atimensec),
		MtimeNano: hostfs.TimeOf(in.Valid&fuse.FATTR_MTIME_NOW != 0, in.Mtime, in.Mtimensec),
	}
	for _, b := range [...]struct{ valid, set uint32 }{
		{fuse.FATTR_MODE, vfs.SetMode}, {fuse.FATTR_UID, vfs.SetUID}, {fuse.FATTR_GID, vfs.SetGID},
		{fuse.FATTR_SIZE, vfs.SetSize}, {fuse.FATTR_ATIME, vfs.SetAtime}, {fuse.FATTR_MTIME, vfs.SetMtime},
	} {
		if in.Valid&b.valid != 0 {
			s.Set |= b.set
		}
	}
	if fh, ok := in.GetFh(); ok {
		s.Handle = fh
	}
	a, err := f.tree.SetAttr(request(cancel, &in.InHeader), in.NodeId, &s)
	return attributes(a, err, out)
}

// Mkdir answers MKDIR.
func (f *FileSystem) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	e, err := f.tree.Mkdir(making(cancel, &in.InHeader, in.Umask), in.NodeId, name, in.Mode)
	return entry(e, err, out)
}

// Mknod answers MKNOD.
func (f *FileSystem) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	e, err := f.tree.Mknod(making(cancel, &in.InHeader, in.Umask), in.NodeId, name, in.Mode)
	return entry(e, err, out)
}

// Symlink answers SYMLINK.
func (f *FileSystem) Symlink(cancel <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	e, err := f.tree.Symlink(request(cancel, h), h.NodeId, name, target)
	return entry(e, err, out)
}

// Link answers LINK.
func (f *FileSystem) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	e, err := f.tree.Link(request(cancel, &in.InHeader), in.Oldnodeid, in.NodeId, name)
	return entry(e, err, out)
}

// Unlink answers UNLINK.
func (f *FileSystem) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return status(f.tree.Unlink(request(cancel, h), h.NodeId, name))
}

// Rmdir answers RMDIR.
func (f *FileSystem) Rmdir(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return status(f.tree.Rmdir(request(cancel, h), h.NodeId, name))
}

// Rename answers RENAME and RENAME2.
func (f *FileSystem) Rename(cancel <-chan struct{}, in *fuse.RenameIn, name, newName string) fuse.Status {
	return status(f.tree.Rename(request(cancel, &in.InHeader), in.NodeId, name, in.Newdir, newName, in.Flags))
}

// Readlink answers READLINK.
func (f *FileSystem) Readlink(_ <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	target, err := f.tree.Readlink(h.NodeId)
	return target, status(err)
}

// Create answers CREATE.
func (f *FileSystem) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	c := vfs.CreateFile{Name: name, Flags: in.Flags, Mode: in.Mode, KillPriv: in.OpenFlags&fuse.OPEN_KILL_SUIDGID != 0}
	e, o, err := f.tree.Create(making(cancel, &in.InHeader, in.Umask), in.NodeId, c)
	if err == nil {
		fillOpen(o, &out.OpenOut)
	}
	return entry(e, err, &out.EntryOut)
}

// Tmpfile answers TMPFILE (O_TMPFILE).
func (f *FileSystem) Tmpfile(cancel <-chan struct{}, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status {
	e, o, err := f.tree.Tmpfile(making(cancel, &in.InHeader, in.Umask), in.NodeId, in.Flags, in.Mode)
	if err == nil {
		fillOpen(o, &out.OpenOut)
	}
	return entry(e, err, &out.EntryOut)
}

// Open answers OPEN, never by "not implemented": a writer must be known.
func (f *FileSystem) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	o, err := f.tree.Open(request(cancel, &in.InHeader), in.NodeId, in.Flags, in.Mode&fuse.OPEN_KILL_SUIDGID != 0)
	if err == nil {
		fillOpen(o, out)
		if in.Flags&syscall.O_ACCMODE == syscall.O_RDONLY {
			// Its locks go with the last descriptor: a request for each close would
			// make reading slower by a third.
			out.OpenFlags |= fuse.FOPEN_NOFLUSH
		}
	}
	return status(err)
}

// Release answers RELEASE. It comes when the last descriptor and the last
// mapping are gone.
func (f *FileSystem) Release(_ <-chan struct{}, in *fuse.ReleaseIn) { f.tree.Release(in.Fh) }

// Read answers READ.
func (f *FileSystem) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	buf = buf[:min(int(in.Size), len(buf))]
	if p, ok := f.tree.ReadLater(in.NodeId, in.Fh, in.Offset, len(buf)); ok {
		r := fileResults.Get().(*fileResult)
		r.Pending = p
		return r, fuse.OK
	}
	n, err := f.tree.Read(in.NodeId, in.Fh, in.Offset, buf)
	if err != nil || n == 0 {
		return fuse.ReadResultData(nil), status(err)
	}
	r := dataResults.Get().(*dataResult)
	r.data[0] = buf[:n]
	return r, fuse.OK
}

// Writev answers WRITE, which go-fuse always hands over this way.
func (f *FileSystem) Writev(cancel <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	r := request(cancel, &in.InHeader)
	if in.WriteFlags&fuse.WRITE_CACHE != 0 {
		r.PID = 0 // write-back of a mapping: nobody's in particular
	}
	n, err := f.tree.Write(r, in.NodeId, in.Fh, in.Offset, data, in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0)
	return uint32(n), status(err)
}

// Write exists for the interface: WRITE reaches Writev.
func (f *FileSystem) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	return f.Writev(cancel, in, [][]byte{data})
}

// Flush answers FLUSH: a process that closes a file gives up its locks of it. Without
// locks the answer is "never ask again": nothing else waits for close here,
// and the kernel has written mapped pages back before it asks.
func (f *FileSystem) Flush(_ <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	if !f.locks {
		f.tree.Count(vfs.OpFlush)
		return fuse.ENOSYS
	}
	f.tree.Flush(in.NodeId, in.Fh, in.LockOwner)
	return fuse.OK
}

// Access answers ACCESS with "never ask again": default_permissions.
func (f *FileSystem) Access(<-chan struct{}, *fuse.AccessIn) fuse.Status {
	f.tree.Count(vfs.OpAccess)
	return fuse.ENOSYS
}

// Ioctl answers IOCTL: no file here knows any.
func (f *FileSystem) Ioctl(_ <-chan struct{}, _ *fuse.IoctlIn, _ []byte, _ *fuse.IoctlOut, _ []byte) fuse.Status {
	f.tree.Count(vfs.OpIoctl)
	return fuse.Status(syscall.ENOTTY)
}

// Fsync answers FSYNC.
func (f *FileSystem) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return status(f.tree.Fsync(in.NodeId, in.Fh, in.FsyncFlags&1 != 0))
}

// Fallocate answers FALLOCATE.
func (f *FileSystem) Fallocate(cancel <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	return status(f.tree.Fallocate(request(cancel, &in.InHeader), in.NodeId, in.Fh, in.Mode, in.Offset, in.Length))
}

// CopyFileRange answers COPY_FILE_RANGE.
func (f *FileSystem) CopyFileRange(cancel <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	if in.Flags != 0 {
		return 0, fuse.EINVAL
	}
	from := vfs.Range{Node: in.NodeId, Handle: in.FhIn, Off: in.OffIn}
	to := vfs.Range{Node: in.NodeIdOut, Handle: in.FhOut, Off: in.OffOut}
	n, err := f.tree.CopyRange(request(cancel, &in.InHeader), from, to, in.Len)
	return uint32(n), status(err)
}

// Lseek answers LSEEK for SEEK_DATA and SEEK_HOLE.
func (f *FileSystem) Lseek(_ <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	off, err := f.tree.Seek(in.NodeId, in.Fh, in.Offset, in.Whence)
	out.Offset = off
	return status(err)
}

// GetXAttr answers GETXATTR.
func (f *FileSystem) GetXAttr(_ <-chan struct{}, h *fuse.InHeader, attr string, dest []byte) (uint32, fuse.Status) {
	n, err := f.tree.GetXattr(h.NodeId, attr, dest)
	return uint32(n), status(err)
}

// ListXAttr answers LISTXATTR.
func (f *FileSystem) ListXAttr(_ <-chan struct{}, h *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	n, err := f.tree.ListXattr(h.NodeId, dest)
	return uint32(n), status(err)
}

// SetXAttr answers SETXATTR.
func (f *FileSystem) SetXAttr(cancel <-chan struct{}, in *fuse.SetXAttrIn, attr string, data []byte) fuse.Status {
	return status(f.tree.SetXattr(request(cancel, &in.InHeader), in.NodeId, attr, data, in.Flags))
}

// RemoveXAttr answers REMOVEXATTR.
func (f *FileSystem) RemoveXAttr(cancel <-chan struct{}, h *fuse.InHeader, attr string) fuse.Status {
	return status(f.tree.RemoveXattr(request(cancel, h), h.NodeId, attr))
}

// OpenDir answers OPENDIR with "never ask again": listing needs no handle, and
// opendir then costs no request at all.
func (f *FileSystem) OpenDir(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status {
	f.tree.Count(vfs.OpOpendir)
	return fuse.ENOSYS
}

// ReleaseDir exists for the interface: there are no directory handles.
func (f *FileSystem) ReleaseDir(*fuse.ReleaseIn) {}

// FsyncDir answers FSYNCDIR.
func (f *FileSystem) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return status(f.tree.FsyncDir(in.NodeId))
}

func dirEntry(e vfs.DirEntry) fuse.DirEntry {
	return fuse.DirEntry{Name: e.Name, Ino: e.Ino, Off: e.Off, Mode: e.Type}
}

// ReadDir answers READDIR.
func (f *FileSystem) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return status(f.tree.ReadDir(in.NodeId, in.Offset, int(in.Size), func(e vfs.DirEntry) bool {
		return out.AddDirEntry(dirEntry(e))
	}))
}

// direntsPerPlus is how much smaller the host's entry is than READDIRPLUS's.
const direntsPerPlus = 4

// ReadDirPlus answers READDIRPLUS. An entry that is gone again goes without.
func (f *FileSystem) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	var to *fuse.EntryOut
	return status(f.tree.ReadDirPlus(in.NodeId, in.Offset, int(in.Size)/direntsPerPlus,
		func(e vfs.DirEntry) bool {
			to = out.AddDirLookupEntry(dirEntry(e))
			return to != nil
		},
		func(e *vfs.Entry) {
			fillEntry(e, to)
			out.FixMode(to.Mode)
		}))
}

// fileResult is a READ answered from a descriptor without copying. It keeps
// the file open until the reply is out.
type fileResult struct{ vfs.Pending }

var fileResults = sync.Pool{New: func() any { return new(fileResult) }}

func (r *fileResult) Seekable() (fd uintptr, off int64, sz int) {
	n, off, sz := r.Descriptor()
	return uintptr(n), off, sz
}

func (r *fileResult) Size() int {
	_, _, size := r.Descriptor()
	return size
}

func (r *fileResult) Bytes(buf []byte) ([]byte, fuse.Status) {
	n, err := r.Read(buf)
	return buf[:n], status(err)
}

func (r *fileResult) Readv(dst [][]byte) (int, fuse.Status) {
	n, err := r.Read(dst...)
	return n, status(err)
}

func (r *fileResult) Done() {
	r.Pending.Done()
	r.Pending = vfs.Pending{}
	fileResults.Put(r)
}

// dataResult is a READ answered from memory.
type dataResult struct {
	data [1][]byte
}

var dataResults = sync.Pool{New: func() any { return new(dataResult) }}

func (r *dataResult) Size() int                          { return len(r.data[0]) }
func (r *dataResult) Bytes([]byte) ([]byte, fuse.Status) { return r.data[0], fuse.OK }
func (r *dataResult) Slices() ([][]byte, fuse.Status)    { return r.data[:], fuse.OK }
func (r *dataResult) Done()                              { r.data[0] = nil; dataResults.Put(r) }
