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

// looked is what must be known of a file before it is used.
type looked struct {
	inode
	mode       uint32
	attributes uint32
}

func (l looked) kind() uint32 { return l.mode & S_IFMT }

// other tells whether a file is a reparse point that is no link: what opened it without following it cannot read it.
func (l looked) other() bool {
	return l.attributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0 && (l.kind() == S_IFREG || l.kind() == S_IFDIR)
}

func look(h windows.Handle) (l looked, err error) {
	var b [40]byte
	attributes, tag := b[:4], b[4:8]
	err = ntQuery(h, fileTagInformation, b[:8])
	if unknown(err) { // old servers do not tell where something leads: elsewhere, then
		attributes, tag = b[32:36], []byte{0, 0, 0, tagSurrogate >> 24}
		err = ntQuery(h, windows.FileBasicInformation, b[:])
	}
	if err != nil {
		return l, err
	}
	l.attributes = binary.LittleEndian.Uint32(attributes)
	l.mode = modeOf(l.attributes, binary.LittleEndian.Uint32(tag))
	l.inode, err = inodeOf(h)
	return l, err
}

// blockSize is the size that programs are told to read and write with, and the size of a directory.
const blockSize = 4096

// stat describes what is open as h.
func stat(h windows.Handle, st *Stat_t) error {
	l, err := look(h)
	if err != nil {
		return err
	}
	// Basic (40 bytes), standard (24), and more that is not looked at.
	var b [512]byte
	if err := ntQuery(h, fileAllInformation, b[:]); err != nil {
		return err
	}
	le := binary.LittleEndian
	basic, standard := b[:40], b[40:64]
	at := func(i int) Timespec { return moment(int64(le.Uint64(basic[i:]))) }
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
	return nil
}
