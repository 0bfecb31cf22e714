package ninep

// The types of messages. The answer to a T-message has the next number, unless
// it is Rlerror.
const (
	typRlerror      = 7
	typTstatfs      = 8
	typTlopen       = 12
	typTlcreate     = 14
	typTsymlink     = 16
	typTmknod       = 18
	typTrename      = 20
	typTreadlink    = 22
	typTgetattr     = 24
	typTsetattr     = 26
	typTxattrwalk   = 30
	typTxattrcreate = 32
	typTreaddir     = 40
	typTfsync       = 50
	typTlock        = 52
	typTgetlock     = 54
	typTlink        = 70
	typTmkdir       = 72
	typTrenameat    = 74
	typTunlinkat    = 76
	typTversion     = 100
	typTauth        = 102
	typTattach      = 104
	typTflush       = 108
	typTwalk        = 110
	typTread        = 116
	typTwrite       = 118
	typTclunk       = 120
	typTremove      = 122
)

// empty is every message without fields.
type empty struct{}

func (*empty) fields(*codec) {}

type rlerror struct{ errno uint32 }

func (m *rlerror) fields(c *codec) { c.u32(&m.errno) }

// tversion is Rversion, too.
type tversion struct {
	msize   uint32
	version string
}

func (m *tversion) fields(c *codec) { c.u32(&m.msize); c.str(&m.version) }

type tauth struct {
	afid         uint32
	uname, aname string
	uid          uint32
}

func (m *tauth) fields(c *codec) {
	c.u32(&m.afid)
	c.str(&m.uname)
	c.str(&m.aname)
	c.u32(&m.uid)
}

type tattach struct {
	fid, afid    uint32
	uname, aname string
	uid          uint32
}

func (m *tattach) fields(c *codec) {
	c.u32s(&m.fid, &m.afid)
	c.str(&m.uname)
	c.str(&m.aname)
	c.u32(&m.uid)
}

// rqid is the answer to Tattach, Tsymlink, Tmknod and Tmkdir.
type rqid struct{ qid qid }

func (m *rqid) fields(c *codec) { c.qid(&m.qid) }

type tflush struct{ old uint16 }

func (m *tflush) fields(c *codec) { c.u16(&m.old) }

type twalk struct {
	fid, newFID uint32
	names       []string
}

func (m *twalk) fields(c *codec) { c.u32s(&m.fid, &m.newFID); c.names(&m.names) }

type rwalk struct{ qids []qid }

func (m *rwalk) fields(c *codec) { c.qids(&m.qids) }

// tfid is Tstatfs, Treadlink, Tclunk and Tremove.
type tfid struct{ fid uint32 }

func (m *tfid) fields(c *codec) { c.u32(&m.fid) }

type tlopen struct{ fid, flags uint32 }

func (m *tlopen) fields(c *codec) { c.u32s(&m.fid, &m.flags) }

// ropen is the answer to Tlopen and Tlcreate.
type ropen struct {
	qid    qid
	ioUnit uint32
}

func (m *ropen) fields(c *codec) { c.qid(&m.qid); c.u32(&m.ioUnit) }

type tlcreate struct {
	fid              uint32
	name             string
	flags, mode, gid uint32
}

func (m *tlcreate) fields(c *codec) {
	c.u32(&m.fid)
	c.str(&m.name)
	c.u32s(&m.flags, &m.mode, &m.gid)
}

type tsymlink struct {
	fid          uint32
	name, target string
	gid          uint32
}

func (m *tsymlink) fields(c *codec) {
	c.u32(&m.fid)
	c.str(&m.name)
	c.str(&m.target)
	c.u32(&m.gid)
}

type tmknod struct {
	fid                     uint32
	name                    string
	mode, major, minor, gid uint32
}

func (m *tmknod) fields(c *codec) {
	c.u32(&m.fid)
	c.str(&m.name)
	c.u32s(&m.mode, &m.major, &m.minor, &m.gid)
}

type tmkdir struct {
	fid       uint32
	name      string
	mode, gid uint32
}

func (m *tmkdir) fields(c *codec) { c.u32(&m.fid); c.str(&m.name); c.u32s(&m.mode, &m.gid) }

type trename struct {
	fid, dir uint32
	name     string
}

func (m *trename) fields(c *codec) { c.u32s(&m.fid, &m.dir); c.str(&m.name) }

type trenameat struct {
	fid     uint32
	oldName string
	newDir  uint32
	newName string
}

func (m *trenameat) fields(c *codec) {
	c.u32(&m.fid)
	c.str(&m.oldName)
	c.u32(&m.newDir)
	c.str(&m.newName)
}

type tunlinkat struct {
	fid   uint32
	name  string
	flags uint32
}

func (m *tunlinkat) fields(c *codec) { c.u32(&m.fid); c.str(&m.name); c.u32(&m.flags) }

type tlink struct {
	dir, fid uint32
	name     string
}

func (m *tlink) fields(c *codec) { c.u32s(&m.dir, &m.fid); c.str(&m.name) }

type rreadlink struct{ target string }

func (m *rreadlink) fields(c *codec) { c.str(&m.target) }

type rstatfs struct {
	typ, bsize                                uint32
	blocks, bfree, bavail, files, ffree, fsid uint64
	nameLen                                   uint32
}

func (m *rstatfs) fields(c *codec) {
	c.u32s(&m.typ, &m.bsize)
	c.u64s(&m.blocks, &m.bfree, &m.bavail, &m.files, &m.ffree, &m.fsid)
	c.u32(&m.nameLen)
}

// getattrBasic are the fields of Rgetattr that are always valid.
const getattrBasic = 0x7ff

type tgetattr struct {
	fid  uint32
	mask uint64
}

func (m *tgetattr) fields(c *codec) { c.u32(&m.fid); c.u64(&m.mask) }

type rgetattr struct {
	valid                               uint64
	qid                                 qid
	mode, uid, gid                      uint32
	nlink, rdev, size, blksize, blocks  uint64
	atime, atimeNS, mtime, mtimeNS      uint64
	ctime, ctimeNS, btime, btimeNS, gen uint64
	dataVersion                         uint64
}

func (m *rgetattr) fields(c *codec) {
	c.u64(&m.valid)
	c.qid(&m.qid)
	c.u32s(&m.mode, &m.uid, &m.gid)
	c.u64s(&m.nlink, &m.rdev, &m.size, &m.blksize, &m.blocks, &m.atime, &m.atimeNS, &m.mtime, &m.mtimeNS,
		&m.ctime, &m.ctimeNS, &m.btime, &m.btimeNS, &m.gen, &m.dataVersion)
}

// What a Tsetattr sets (P9_ATTR_* of the kernel; the specification's table has
// the last two at 0x100 and 0x200, which no client sends).
const (
	setMode = 1 << iota
	setUID
	setGID
	setSize
	setAtime
	setMtime
	setCtime
	setAtimeSet
	setMtimeSet
	setKnown = 1<<iota - 1
)

type tsetattr struct {
	fid, valid, mode, uid, gid           uint32
	size, atime, atimeNS, mtime, mtimeNS uint64
}

func (m *tsetattr) fields(c *codec) {
	c.u32s(&m.fid, &m.valid, &m.mode, &m.uid, &m.gid)
	c.u64s(&m.size, &m.atime, &m.atimeNS, &m.mtime, &m.mtimeNS)
}

type txattrwalk struct {
	fid, newFID uint32
	name        string
}

func (m *txattrwalk) fields(c *codec) { c.u32s(&m.fid, &m.newFID); c.str(&m.name) }

type rxattrwalk struct{ size uint64 }

func (m *rxattrwalk) fields(c *codec) { c.u64(&m.size) }

type txattrcreate struct {
	fid   uint32
	name  string
	size  uint64
	flags uint32
}

func (m *txattrcreate) fields(c *codec) {
	c.u32(&m.fid)
	c.str(&m.name)
	c.u64(&m.size)
	c.u32(&m.flags)
}

// tread is Treaddir, too.
type tread struct {
	fid   uint32
	off   uint64
	count uint32
}

func (m *tread) fields(c *codec) { c.u32(&m.fid); c.u64(&m.off); c.u32(&m.count) }

// rread is Rreaddir, too.
type rread struct{ data []byte }

func (m *rread) fields(c *codec) { c.data(&m.data) }

// dirent is one entry of an Rreaddir.
type dirent struct {
	qid  qid
	off  uint64
	typ  uint8
	name string
}

func (m *dirent) fields(c *codec) { c.qid(&m.qid); c.u64(&m.off); c.u8(&m.typ); c.str(&m.name) }

type twrite struct {
	fid  uint32
	off  uint64
	data []byte
}

func (m *twrite) fields(c *codec) { c.u32(&m.fid); c.u64(&m.off); c.data(&m.data) }

type rwrite struct{ count uint32 }

func (m *rwrite) fields(c *codec) { c.u32(&m.count) }

// tfsync got its second field only in Linux 3.
type tfsync struct{ fid, dataSync uint32 }

func (m *tfsync) fields(c *codec) {
	c.u32(&m.fid)
	if !c.decoding || len(c.buf) > 0 {
		c.u32(&m.dataSync)
	}
}

// Types, flags and outcomes of locks.
const (
	lockRead = iota
	lockWrite
	lockUnlock

	lockBlock = 1 // flag: the client would wait

	lockSuccess = 0
	lockBlocked = 1
)

type tlock struct {
	fid           uint32
	typ           uint8
	flags         uint32
	start, length uint64
	pid           uint32
	client        string
}

func (m *tlock) fields(c *codec) {
	c.u32(&m.fid)
	c.u8(&m.typ)
	c.u32(&m.flags)
	c.u64s(&m.start, &m.length)
	c.u32(&m.pid)
	c.str(&m.client)
}

type rlock struct{ status uint8 }

func (m *rlock) fields(c *codec) { c.u8(&m.status) }

type tgetlock struct {
	fid uint32
	rgetlock
}

func (m *tgetlock) fields(c *codec) { c.u32(&m.fid); m.rgetlock.fields(c) }

type rgetlock struct {
	typ           uint8
	start, length uint64
	pid           uint32
	client        string
}

func (m *rgetlock) fields(c *codec) {
	c.u8(&m.typ)
	c.u64s(&m.start, &m.length)
	c.u32(&m.pid)
	c.str(&m.client)
}
