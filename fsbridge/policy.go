package fsbridge

import (
	"bytes"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Privileged are the bits of a mode with which a program runs as somebody else.
const Privileged = posix.S_ISUID | posix.S_ISGID

// ModePolicy is what the workload may make of something of type typ by asking for a mode; less
// says that bits were left out. A regular file gets neither setuid nor setgid: what the
// workload writes belongs on the host to whoever started the program, and with them anybody who may
// execute it would run it with the starter's rights. chmod may ignore them (POSIX). On whatever else there
// is they give no rights: setgid on a directory only hands down a group.
func ModePolicy(typ, mode uint32) (kept uint32, less bool) {
	if typ != posix.S_IFREG || mode&Privileged == 0 {
		return mode, false
	}
	return mode &^ Privileged, true
}

// GivesAway tells whether a file of this mode gives rights to whoever executes it. Nobody but its owner may decide then what is
// in it, and who executes it.
func GivesAway(mode uint32) bool {
	return mode&posix.S_IFMT == posix.S_IFREG && mode&Privileged != 0
}

// Renamable refuses what the host would refuse, before anything is captured: a rename of
// something of type typ to a name that binds something of type victim, or nothing (0).
func Renamable(typ, victim, flags uint32) error {
	const noReplace, exchange = 1, 2 // RENAME_NOREPLACE, RENAME_EXCHANGE
	switch {
	case flags&noReplace != 0 && victim != 0:
		return posix.EEXIST
	case flags&exchange != 0:
		if victim == 0 {
			return posix.ENOENT
		}
	case victim == 0:
	case typ == posix.S_IFDIR && victim != posix.S_IFDIR:
		return posix.ENOTDIR
	case typ != posix.S_IFDIR && victim == posix.S_IFDIR:
		return posix.EISDIR
	}
	return nil
}

// Settable says whether the workload may set or remove an attribute: its own
// and access lists. Everything in security and trusted would speak to the host
// with the starter's voice.
func Settable(attr string) error {
	switch {
	case strings.HasPrefix(attr, "user."),
		attr == "system.posix_acl_access", attr == "system.posix_acl_default":
		return nil
	case strings.HasPrefix(attr, "security."), strings.HasPrefix(attr, "trusted."):
		return posix.EPERM
	}
	return posix.EOPNOTSUPP
}

// Readable says whether the workload may see an attribute. The kernel asks for
// security.capability before the first write to each file; a nosuid mount has
// no use for it, and the host drops it at a write by itself.
func Readable(attr string) bool {
	return strings.HasPrefix(attr, "user.") || strings.HasPrefix(attr, "system.posix_acl_")
}

// Visible keeps the readable ones of NUL-terminated names.
func Visible(names []byte) []byte {
	out := names[:0]
	for len(names) > 0 {
		end := bytes.IndexByte(names, 0) + 1
		if end == 0 {
			break
		}
		if Readable(string(names[:end-1])) {
			out = append(out, names[:end]...)
		}
		names = names[end:]
	}
	return out
}

// LinkLeadsOut tells whether a symlink of the host's, which is to the workload what a
// junction or another reparse point of Windows is, may leave the folder. path is the
// link's, relative to the root. Only leading ".." can be counted: what a ".." after a name leads to depends on that name.
func LinkLeadsOut(path, target string) bool {
	if strings.HasPrefix(target, "/") {
		return true
	}
	depth, named := strings.Count(path, "/"), false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; named || depth < 0 {
				return true
			}
		default:
			named = true
		}
	}
	return false
}
