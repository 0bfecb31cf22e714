package posixmeta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strings"
)

// Entry is what the file system cannot hold of a file. The Has fields say what
// of it was ever set; the rest is as the host has it, or a default.
type Entry struct {
	HasMode bool
	Mode    uint32 // the twelve permission bits

	HasOwner bool
	UID, GID uint32

	// Type is S_IFLNK, S_IFIFO or S_IFSOCK for what is a plain file on the host;
	// 0: as on the host. Target is the symlink's text.
	Type   uint32
	Target string
}

// Types of [Entry] and [Attr], as Linux has them on every architecture.
const (
	typeMask   = 0o170000
	typeFIFO   = 0o010000
	typeDir    = 0o040000
	typeLink   = 0o120000
	typeSocket = 0o140000
	modeMask   = 0o7777
)

// ErrEntry is wrapped where a stored entry cannot be read.
var ErrEntry = errors.New("posixmeta: damaged entry")

// An entry is stored as: version[1] flags[1] mode[4] uid[4] gid[4] type[4] target,
// little-endian.
const (
	entryVersion = 1
	entryBytes   = 18

	flagMode  = 1
	flagOwner = 2
)

func (e Entry) encode() []byte {
	var flags byte
	if e.HasMode {
		flags |= flagMode
	}
	if e.HasOwner {
		flags |= flagOwner
	}
	b := append(make([]byte, 0, entryBytes+len(e.Target)), entryVersion, flags)
	for _, v := range []uint32{e.Mode, e.UID, e.GID, e.Type} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return append(b, e.Target...)
}

func decodeEntry(b []byte) (Entry, error) {
	if len(b) < entryBytes || b[0] != entryVersion || b[1]&^(flagMode|flagOwner) != 0 {
		return Entry{}, fmt.Errorf("%w: %d bytes", ErrEntry, len(b))
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(b[2+4*i:]) }
	e := Entry{
		HasMode: b[1]&flagMode != 0, Mode: word(0), HasOwner: b[1]&flagOwner != 0, UID: word(1), GID: word(2),
		Type: word(3), Target: string(b[entryBytes:]),
	}
	switch e.Type {
	case 0, typeFIFO, typeSocket, typeLink:
	default:
		return Entry{}, fmt.Errorf("%w: type %o", ErrEntry, e.Type)
	}
	if e.Mode&^modeMask != 0 {
		return Entry{}, fmt.Errorf("%w: mode %o", ErrEntry, e.Mode)
	}
	return e, nil
}

// Attr is what a guest is shown of a file. Size is bytes.
type Attr struct {
	Mode     uint32 // with the type
	UID, GID uint32
	Size     int64
}

// Overlay returns the host's attributes with the entry's over them. A host that
// knows no modes says only whether a file may be written (owner's write bit).
func (e Entry) Overlay(name string, host Attr) Attr {
	out := host
	typ := host.Mode & typeMask
	perm := DefaultMode(name, typ == typeDir, host.Mode&0o200 == 0)
	if e.HasMode {
		perm = e.Mode
	}
	if e.Type != 0 && typ != typeDir {
		typ = e.Type
	}
	if typ == typeLink {
		perm = 0o777
		if e.Type == typeLink {
			out.Size = int64(len(e.Target))
		}
	}
	out.Mode = typ | perm
	if e.HasOwner {
		out.UID, out.GID = e.UID, e.GID
	}
	return out
}

// executables are extensions of what is run.
var executables = map[string]bool{
	".sh": true, ".bash": true, ".zsh": true, ".py": true, ".pl": true, ".rb": true,
	".exe": true, ".com": true, ".bat": true, ".cmd": true, ".ps1": true, ".run": true, ".appimage": true,
}

// DefaultMode is the mode of what nobody has set one for: 0755 for directories
// and what an extension shows to be run, 0644 for the rest, less the write
// bits where the host says that it is read-only.
func DefaultMode(name string, dir, readOnly bool) uint32 {
	mode := uint32(0o644)
	if dir || executables[strings.ToLower(path.Ext(name))] {
		mode = 0o755
	}
	if readOnly && !dir {
		mode &^= 0o222
	}
	return mode
}
