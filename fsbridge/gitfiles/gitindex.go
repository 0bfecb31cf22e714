package gitfiles

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // it is git's checksum, not ours
	"crypto/sha256"
	"encoding/binary"
	"path"
)

// MaxIndexBytes is how large an index may be to be read.
const MaxIndexBytes = 16 << 20

// IndexName is what the index is called in a git directory.
const IndexName = "index"

// IsIndex tells whether a path, relative to a folder, may be an index of git: of a repository, a worktree, a submodule, or of
// the folder if that is a git directory.
func IsIndex(name string) bool { return path.Base(name) == IndexName }

const (
	header   = 12
	statSize = 40 // times, device, inode, mode, owner, size
	modeAt   = 24
	extended = 0x4000
)

// IndexDigest is a hash of what an index says: names, modes, object ids and flags of its entries, and the extensions that
// change their meaning. It is false if b is no index that is understood.
func IndexDigest(b []byte) (sum [sha256.Size]byte, ok bool) {
	oid := oidSize(b)
	if oid == 0 {
		return sum, false
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 {
		return sum, false
	}
	h := sha256.New()
	rest := b[header : len(b)-oid]
	var name []byte
	for range count {
		fixed := statSize + oid + 2
		if len(rest) < fixed {
			return sum, false
		}
		flags := binary.BigEndian.Uint16(rest[fixed-2:])
		if flags&extended != 0 {
			if fixed += 2; version < 3 || len(rest) < fixed {
				return sum, false
			}
		}
		var used int
		if name, used = entryName(name, rest, fixed, version); used == 0 {
			return sum, false
		}
		h.Write(rest[modeAt : modeAt+4])
		h.Write(rest[statSize : statSize+oid])
		h.Write([]byte{byte(flags >> 12)})
		h.Write(rest[statSize+oid+2 : fixed])
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(name))))
		h.Write(name)
		rest = rest[used:]
	}
	for len(rest) > 0 {
		if len(rest) < 8 {
			return sum, false
		}
		n := uint64(binary.BigEndian.Uint32(rest[4:])) + 8
		if n > uint64(len(rest)) {
			return sum, false
		}
		if rest[0] < 'A' || rest[0] > 'Z' { // the others may be left out by who does not know them
			h.Write(rest[:n])
		}
		rest = rest[n:]
	}
	h.Sum(sum[:0])
	return sum, true
}

// oidSize is the size of object ids, by the checksum at the end; 0 if b is no index, or one without a checksum.
func oidSize(b []byte) int {
	if len(b) < header+sha1.Size || string(b[:4]) != "DIRC" {
		return 0
	}
	body := b[:len(b)-sha1.Size]
	if sum := sha1.Sum(body); bytes.Equal(sum[:], b[len(body):]) { //nolint:gosec // see above
		return sha1.Size
	}
	if len(b) < header+sha256.Size {
		return 0
	}
	body = b[:len(b)-sha256.Size]
	if sum := sha256.Sum256(body); bytes.Equal(sum[:], b[len(body):]) {
		return sha256.Size
	}
	return 0
}

// entryName reads the name at b[at:], and returns how many bytes the entry takes; 0: it is none. Version 4 cuts so many
// bytes off the name before and puts others in their place.
func entryName(before, b []byte, at int, version uint32) (name []byte, used int) {
	if version == 4 {
		cut, n := offset(b[at:])
		if n == 0 || cut > uint64(len(before)) {
			return nil, 0
		}
		at += n
		end := bytes.IndexByte(b[at:], 0)
		if end < 0 {
			return nil, 0
		}
		return append(before[:uint64(len(before))-cut:uint64(len(before))-cut], b[at:at+end]...), at + end + 1
	}
	end := bytes.IndexByte(b[at:], 0)
	used = (at+end)/8*8 + 8
	if end < 0 || used > len(b) {
		return nil, 0
	}
	return b[at : at+end], used
}

// offset reads a number as git's packs write it.
func offset(b []byte) (v uint64, n int) {
	for i, c := range b {
		if i == 0 {
			v = uint64(c & 0x7f)
		} else {
			v = (v+1)<<7 | uint64(c&0x7f)
		}
		if c&0x80 == 0 {
			return v, i + 1
		}
		if i == 8 {
			break
		}
	}
	return 0, 0
}
