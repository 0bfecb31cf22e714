package store

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// A log belongs to one folder. Its records name inodes by their numbers, so in another
// folder they would name strangers: whoever opens a log proves first that it is this
// folder's.

// identityName is the file that says whose the log is.
const identityName = "identity"

// maxIdentity bounds what is read of it, in bytes.
const maxIdentity = 64 << 10

// Identity says which log this is, and of which folder.
type Identity struct {
	Log string `json:"log"` // random
	// Folder is where the folder was when the log was opened last.
	Folder []byte `json:"folder"` // base64: any bytes survive
	hostfs.Lasting
}

// ReadIdentity reads the identity of the log behind dirfd. A log of an older program has
// none: then it is nil.
func ReadIdentity(dirfd int) (*Identity, error) {
	b, err := hostfs.ReadSmall(dirfd, identityName, maxIdentity)
	if errors.Is(err, posix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var id Identity
	if err := json.Unmarshal(b, &id); err != nil || id.Log == "" || len(id.Folder) == 0 {
		return nil, fmt.Errorf("the file %s, which says whose log it is, is damaged: %w", identityName, errors.Join(format.ErrDamaged, err))
	}
	return &id, nil
}

// WriteIdentity writes the identity of the log behind dirfd.
func WriteIdentity(dirfd int, id *Identity) error {
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return WriteFile(dirfd, identityName, append(b, '\n'))
}

// Prove makes sure that the log in dir, whose lock is held and said before that it is
// was's, is that of the folder root, and takes down where the folder is now. A log without an
// identity gets one if its steps are of this folder. Else it returns a *base.ForeignError.
func Prove(dir, root *hostfs.Root, path, was string) (*Identity, error) {
	now, err := root.Lasting()
	if err != nil {
		return nil, Unusable(dir.Path(), err)
	}
	id, err := ReadIdentity(dir.FD())
	if err != nil {
		return nil, Unusable(dir.Path(), err)
	}
	if id == nil {
		return adoptOld(dir, &now, path, was)
	}
	if why := differs(id, &now, path); why != "" {
		return nil, &format.ForeignError{Dir: dir.Path(), Folder: path, Owner: string(id.Folder), Why: why}
	}
	if string(id.Folder) == path && id.Lasting == now {
		return id, nil
	}
	id.Folder, id.Lasting = []byte(path), now
	if err := WriteIdentity(dir.FD(), id); err != nil {
		return nil, Unusable(dir.Path(), err)
	}
	return id, nil
}

// differs says why the folder now at path is not that of id; empty if it is.
func differs(id *Identity, now *hostfs.Lasting, path string) string {
	same, certain := id.Same(*now)
	switch {
	case !same && id.FileSystem != "" && now.FileSystem != "" && id.FileSystem != now.FileSystem:
		return "it was made on another file system"
	case !same && id.Ino == now.Ino:
		return "the directory was made anew since: it has the same number and another file handle"
	case !same:
		return fmt.Sprintf("it was made for the directory with inode number %d, and here is %d", id.Ino, now.Ino)
	case !certain && string(id.Folder) != path:
		return "this file system has no lasting file handles, by which a folder could be told at another path"
	}
	return ""
}

// adoptOld gives a log of an older program, or a new one, its identity.
func adoptOld(dir *hostfs.Root, now *hostfs.Lasting, path, was string) (*Identity, error) {
	steps, err := rootsOf(dir.FD())
	if err != nil {
		return nil, Unusable(dir.Path(), err)
	}
	for _, id := range steps {
		if id.Ino != now.Ino {
			return nil, &format.ForeignError{Dir: dir.Path(), Folder: path, Owner: was, Why: fmt.Sprintf("an older version made it, with a step in the directory with inode number %d, and here is %d", id.Ino, now.Ino)}
		}
	}
	if len(steps) > 0 && was != "" && was != path && isStill(was, now.Ino) {
		return nil, &format.ForeignError{Dir: dir.Path(), Folder: path, Owner: was, Why: "an older version made it, which used it there last"}
	}
	var b [16]byte
	if _, err := io.ReadFull(rand.Reader, b[:]); err != nil {
		return nil, err
	}
	id := &Identity{Log: hex.EncodeToString(b[:]), Folder: []byte(path), Lasting: *now}
	if err := WriteIdentity(dir.FD(), id); err != nil {
		return nil, Unusable(dir.Path(), err)
	}
	return id, nil
}

// isStill reports whether the directory at path has that inode number.
func isStill(path string, ino uint64) bool {
	r, err := hostfs.OpenRoot(path)
	if err != nil {
		return false
	}
	defer r.Close()
	return r.ID().Ino == ino
}

// rootsOf returns the inodes that the steps of the log behind dirfd know their folders by. A
// step that cannot be read has none.
func rootsOf(dirfd int) (list []hostfs.ID, err error) {
	for _, parent := range []string{"steps", "redo", "wal", "rollback", "wal/rollback.new"} {
		fd, err := hostfs.OpenBeneath(dirfd, parent, posix.O_RDONLY|posix.O_DIRECTORY)
		if errors.Is(err, posix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, err
		}
		entries, err := hostfs.ReadDir(fd)
		for i := 0; err == nil && i < len(entries); i++ {
			step, oerr := openStepDir(fd, entries[i].Name)
			if oerr != nil {
				continue
			}
			if id, ok := format.ReadRoot(step.FD); ok {
				list = append(list, id)
			}
			_ = step.Close()
		}
		_ = hostfs.Close(fd)
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// keepsModes tells whether the file system of the directory behind fd keeps modes: where it
// does not, they say nothing.
func keepsModes(fd int, st *hostfs.Stat) bool {
	if err := posix.Chmod(fd, st.Mode&0o7755); err != nil {
		return true
	}
	now, err := hostfs.StatFD(fd)
	if err != nil || now.Mode != st.Mode {
		_ = posix.Chmod(fd, st.Mode&0o7777)
		return true
	}
	return false
}

// checkOwn refuses a directory in which somebody else could have written, or can.
func checkOwn(dir *hostfs.Root) error {
	st, err := dir.Stat()
	if err != nil {
		return err
	}
	switch {
	case int(st.UID) != posix.Geteuid():
		return fmt.Errorf("it belongs to user %d, who could have put anything into it; this program runs as user %d", st.UID, posix.Geteuid())
	case st.Mode&0o022 != 0 && keepsModes(dir.FD(), &st):
		return fmt.Errorf("its mode is %#o: others may write into it; take that right away (chmod go-w) if you know what is in it", st.Mode&0o7777)
	}
	return posix.OthersCanWrite(dir.FD())
}
