package posix

import (
	"encoding/binary"

	"golang.org/x/sys/windows"
)

// inode is what tells a file from any other.
type inode struct {
	volume uint64
	id     [16]byte
}

// number is the inode's number: the id of NTFS, which has 64 bits (with a count of how often its record was used). ReFS has 128:
// there the halves are folded, so that two files can have the same number, though it takes billions of them. The files of one
// directory never have.
func (i inode) number() uint64 {
	const odd = 0x9e3779b97f4a7c15
	return binary.LittleEndian.Uint64(i.id[:]) ^ odd*binary.LittleEndian.Uint64(i.id[8:])
}

// inodeOf asks for the inode of a handle.
func inodeOf(h windows.Handle) (i inode, err error) {
	var b [24]byte
	if err := ntQuery(h, fileIDInformation, b[:]); err == nil {
		copy(i.id[:], b[8:])
		i.volume = binary.LittleEndian.Uint64(b[:])
		return i, nil
	} else if !unknown(err) {
		return i, err
	}
	return oldInodeOf(h)
}

// oldInodeOf asks as FAT and old servers know it.
func oldInodeOf(h windows.Handle) (i inode, err error) {
	if err := ntQuery(h, fileInternalInformation, i.id[:8]); err != nil {
		return i, err
	}
	var volume [24 + 64]byte
	err = volumeQuery(h, fileSystemVolume, volume[:])
	i.volume = uint64(binary.LittleEndian.Uint32(volume[8:]))
	return i, err
}

// Reparse points that stand for something else than what their attributes say. A surrogate leads elsewhere.
const (
	tagSurrogate = 0x20000000
	tagSocket    = 0x80000023 // IO_REPARSE_TAG_AF_UNIX
	tagFIFO      = 0x80000024 // IO_REPARSE_TAG_LX_FIFO
	tagCharacter = 0x80000025
	tagBlock     = 0x80000026
	tagLinux     = 0xA000001D // IO_REPARSE_TAG_LX_SYMLINK: a symlink of WSL
)

// modeOf returns type and permissions. Symlinks and junctions are links, and so is all else that leads elsewhere: nothing is ever
// followed that is not known to stay. Other reparse points (a file that OneDrive has not fetched yet, or whose blocks are shared) are what
// their attributes say.
func modeOf(attributes, tag uint32) uint32 {
	if attributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0 {
		switch {
		case tag&tagSurrogate != 0:
			return S_IFLNK | 0o777
		case tag == tagSocket:
			return S_IFSOCK | 0o644
		case tag == tagFIFO:
			return S_IFIFO | 0o644
		case tag == tagCharacter:
			return S_IFCHR | 0o644
		case tag == tagBlock:
			return S_IFBLK | 0o644
		}
	}
	switch {
	case attributes&windows.FILE_ATTRIBUTE_DIRECTORY != 0:
		return S_IFDIR | 0o755
	case attributes&windows.FILE_ATTRIBUTE_READONLY != 0:
		return S_IFREG | 0o444
	}
	return S_IFREG | 0o644
}

// traits say what kind of file there is, whichever it is.
type traits struct{ mode, attributes uint32 }

func (t traits) kind() uint32 { return t.mode & S_IFMT }

// other tells whether a file is a reparse point that is no link: what opened it without following it cannot read it.
func (t traits) other() bool {
	return t.attributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0 && (t.kind() == S_IFREG || t.kind() == S_IFDIR)
}

func traitsOf(h windows.Handle) (t traits, err error) {
	var b [40]byte
	attributes, tag := b[:4], b[4:8]
	err = ntQuery(h, fileTagInformation, b[:8])
	if unknown(err) { // old servers do not tell where something leads: elsewhere, then
		attributes, tag = b[32:36], []byte{0, 0, 0, tagSurrogate >> 24}
		err = ntQuery(h, windows.FileBasicInformation, b[:])
	}
	if err != nil {
		return t, err
	}
	t.attributes = binary.LittleEndian.Uint32(attributes)
	t.mode = modeOf(t.attributes, binary.LittleEndian.Uint32(tag))
	return t, nil
}

// looked is what must be known of a file before it is used.
type looked struct {
	inode
	traits
	plain bool // see [facts]
}

// look looks at what is open as h. It was opened by a name in near, or is near itself; nil says that it was opened by a path.
func look(h windows.Handle, near *file) (l looked, err error) {
	if f, ok := factsOf(h, near); ok {
		return f.look(near), nil
	}
	if l.traits, err = traitsOf(h); err != nil {
		return l, err
	}
	if l.inode, err = inodeOf(h); err == nil {
		l.plain = here.plain(h, l)
	}
	return l, err
}

// facts is a FILE_STAT_INFORMATION: by one call it tells all of a file but its volume. Windows has it since 2017, and NTFS knows it. There a file is
// plain if it is no reparse point: what is opened by a name in it, and is none, either, is on the same volume, and its id has 64 bits. So to
// look at what is near a plain file is one call, where it takes three else, of which wine asks another process.
type facts [72]byte

func factsOf(h windows.Handle, near *file) (f facts, ok bool) {
	if near == nil || !near.plain || ntQuery(h, fileStatInformation, f[:]) != nil {
		return f, false
	}
	return f, f.traits().attributes&windows.FILE_ATTRIBUTE_REPARSE_POINT == 0
}

func (f *facts) traits() traits {
	attributes := binary.LittleEndian.Uint32(f[56:])
	return traits{modeOf(attributes, binary.LittleEndian.Uint32(f[60:])), attributes}
}

func (f *facts) look(near *file) looked {
	l := looked{inode: inode{volume: near.volume}, traits: f.traits(), plain: true}
	copy(l.id[:8], f[:])
	return l
}

// plain tells whether [facts] tell the files apart that are near h.
func (p *process) plain(h windows.Handle, l looked) bool {
	var f facts
	return l.attributes&windows.FILE_ATTRIBUTE_REPARSE_POINT == 0 && p.system(h, l.volume) == system{name: ntfs} && ntQuery(h, fileStatInformation, f[:]) == nil
}

// blockSize is the size that programs are told to read and write with, and the size of a directory.
const blockSize = 4096

// stat describes what is open as h: see [look].
func stat(h windows.Handle, near *file, st *Stat_t) error {
	if f, ok := factsOf(h, near); ok {
		var standard [24]byte
		if err := ntQuery(h, fileStandardInformation, standard[:]); err != nil {
			return err
		}
		f.look(near).fill(st, f[8:40], standard[:])
		return nil
	}
	l, err := look(h, nil)
	if err != nil {
		return err
	}
	// Basic (40 bytes), standard (24), and more that is not looked at.
	var b [512]byte
	if err := ntQuery(h, fileAllInformation, b[:]); err != nil {
		return err
	}
	l.fill(st, b[:32], b[40:64])
	return nil
}

// fill describes a file by its times (of birth, access, modification, change) and its FILE_STANDARD_INFORMATION.
func (l looked) fill(st *Stat_t, times, standard []byte) {
	le := binary.LittleEndian
	at := func(i int) Timespec { return moment(int64(le.Uint64(times[i:]))) }
	*st = Stat_t{Dev: l.volume, Ino: l.number(), Mode: l.mode, Nlink: uint64(le.Uint32(standard[16:])), Blksize: blockSize,
		Size: int64(le.Uint64(standard[8:])), Blocks: int64(le.Uint64(standard)+511) / 512, Atim: at(8), Mtim: at(16), Ctim: at(24)}
	deleted := standard[20] != 0
	switch {
	case deleted:
		st.Nlink = 0
	case l.kind() == S_IFDIR:
		st.Nlink = 2
	}
	if l.kind() == S_IFDIR {
		st.Size = blockSize
	}
}
