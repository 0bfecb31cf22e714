package vfs

import "encoding/binary"

// A list is a version, of four bytes, and entries: a tag and rights, of two bytes each, and an id, all little endian.
const (
	version   = 2
	headBytes = 4
	bytesEach = 8
	tagUser   = 0x02 // names a user
	tagGroup  = 0x08 // names a group
	tagMask   = 0x10
)

// entries is how many there are; ok is false for what is no list.
func entries(list []byte) (n int, ok bool) {
	if len(list) < headBytes || (len(list)-headBytes)%bytesEach != 0 || binary.LittleEndian.Uint32(list) != version {
		return 0, false
	}
	return (len(list) - headBytes) / bytesEach, true
}

func entry(list []byte, i int) []byte { return list[headBytes+i*bytesEach:][:bytesEach] }

func tag(entry []byte) uint16 { return binary.LittleEndian.Uint16(entry) }

func id(entry []byte) uint32 { return binary.LittleEndian.Uint32(entry[4:]) }

// swapACL has the two users change places in the entries that name a user, and the two groups in those that name a group. It
// changes list.
func swapACL(list []byte, users, groups [2]uint32) {
	n, _ := entries(list)
	for i := range n {
		e := entry(list, i)
		pair := users
		switch tag(e) {
		case tagUser:
		case tagGroup:
			pair = groups
		default:
			continue
		}
		switch id(e) {
		case pair[0]:
			binary.LittleEndian.PutUint32(e[4:], pair[1])
		case pair[1]:
			binary.LittleEndian.PutUint32(e[4:], pair[0])
		}
	}
}

// onlyACL leaves out of list, which it changes, the entries that name another user or group than these. others tells whether
// there were any.
func onlyACL(list []byte, uid, gid uint32) (kept []byte, others bool) {
	n, ok := entries(list)
	if !ok {
		return list, false
	}
	kept = list[:headBytes]
	for i := range n {
		e := entry(list, i)
		if t := tag(e); t == tagUser && id(e) != uid || t == tagGroup && id(e) != gid {
			others = true
			continue
		}
		kept = append(kept, e...)
	}
	return kept, others
}

// plainACL tells whether a list says no more than a mode does: setting it takes all else away.
func plainACL(list []byte) bool {
	n, ok := entries(list)
	for i := range n {
		switch tag(entry(list, i)) {
		case tagUser, tagGroup, tagMask:
			return false
		}
	}
	return ok
}
