package hostfs

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// DiskName returns name, by which st was found in the directory behind dirfd, as that
// directory has it: where case does not count, that can be another spelling. exact tells
// that case does count in this directory, so that nobody need ask again.
//
// Only Windows has a call that tells the first, and a file system can be either in each of its
// directories. So another spelling is looked up, and only if there is something under
// it, the directory is read.
func DiskName(dirfd int, name string, st *Stat) (disk string, exact bool) {
	if disk, known := posix.Spelled(dirfd, name); known {
		return disk, false
	}
	other, ascii := otherCase(name)
	if other == name {
		return name, false
	}
	if _, err := StatAt(dirfd, other); err != nil {
		// There are file systems to which only the case of ASCII does not count.
		return name, ascii && errors.Is(err, posix.ENOENT)
	}
	disk = listed(dirfd, name, st)
	if disk == name {
		return name, false
	}
	// Where case does count, name may have been removed or replaced meanwhile, and this is
	// another file.
	now, err := StatAt(dirfd, disk)
	if err == nil && now.ID == st.ID || thirdSpelling(dirfd, name, disk) {
		return disk, false
	}
	return name, false
}

// thirdSpelling tells whether there is something under a spelling of name that is neither
// that one nor the one that the directory lists. Some file systems number a file anew for
// each spelling, and only this shows that it is the same.
func thirdSpelling(dirfd int, name, listed string) bool {
	for i := range len(listed) {
		c := listed[i] | 0x20
		if third := listed[:i] + string(listed[i]^0x20) + listed[i+1:]; c >= 'a' && c <= 'z' && third != name {
			_, err := StatAt(dirfd, third)
			return err == nil
		}
	}
	return false
}

// listed returns name as the directory lists it: itself, or else the one that differs
// from it only in case, or is the only name of st and so another normal form of it.
func listed(dirfd int, name string, st *Stat) string {
	fd, err := OpenSelf(dirfd, posix.O_RDONLY)
	if err != nil {
		return name
	}
	defer func() { _ = Close(fd) }()
	folded, numbered, exact := "", "", false // exact: case counts
	buf := make([]byte, 4<<10)               // whoever removes in the order of a listing is found at its start
	for more := true; more && err == nil && !exact; {
		more, err = ReadDirents(fd, buf, func(e Dirent) bool {
			switch exact = e.Name == name || folded != "" && strings.EqualFold(e.Name, name); {
			case strings.EqualFold(e.Name, name):
				folded = e.Name
			case e.Ino == st.Ino && st.Nlink == 1:
				numbered = e.Name
			}
			return !exact
		})
	}
	switch {
	case err != nil || exact || folded == "" && numbered == "":
		return name
	case folded != "":
		return folded
	}
	return numbered
}

// CaseFolds tells whether a name leads to what the directory behind dirfd has under another spelling of it: case does not count there. names
// are some that it has, all of those that differ only in case among them; of a directory without a letter in them it says no.
func CaseFolds(dirfd int, names []string) bool {
	for _, name := range names {
		other, ascii := otherCase(name)
		if other == name || slices.Contains(names, other) {
			continue
		}
		if _, err := StatAt(dirfd, other); err == nil || ascii {
			return err == nil
		}
	}
	return false
}

// otherCase spells name with one letter in the other case, of ASCII if it has one.
func otherCase(name string) (other string, ascii bool) {
	for i := range len(name) {
		if c := name[i] | 0x20; c >= 'a' && c <= 'z' {
			return name[:i] + string(name[i]^0x20) + name[i+1:], true
		}
	}
	for i, r := range name {
		if f := unicode.SimpleFold(r); f != r && r != utf8.RuneError {
			return name[:i] + string(f) + name[i+utf8.RuneLen(r):], false
		}
	}
	return name, false
}
