package places

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/messages/lexical"
)

func sum(s string) []byte {
	h := sha256.Sum256([]byte(s))
	return h[:8]
}

// List lists the overlays of all slots that outlive a session.
func (s Store) List() ([]Entry, error) {
	files, err := filepath.Glob(filepath.Join(globQuote(s.Dir), "*", "*", "*", placeFile))
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, f := range files {
		dir := filepath.Dir(f)
		slot := filepath.Dir(dir)
		e := Entry{dir: dir}
		var uerr, nerr error
		e.UID, uerr = strconv.Atoi(filepath.Base(filepath.Dir(slot)))
		e.Slot, nerr = strconv.Atoi(filepath.Base(slot))
		data, err := os.ReadFile(f)
		if err == nil {
			err = json.Unmarshal(data, &e.Place)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		if uerr != nil || nerr != nil || e.Session {
			continue
		}
		e.PID, _ = holder(slot)
		if err := e.count(); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Entry) int {
		if a.Path != b.Path {
			return strings.Compare(a.Path, b.Path)
		}
		return a.UID*maxSlots + a.Slot - b.UID*maxSlots - b.Slot
	})
	return out, nil
}

// globQuote quotes what means something in a pattern.
func globQuote(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// upper is the overlay's upper layer.
func (e Entry) upper() string { return filepath.Join(e.dir, UpperDir) }

// count fills Files and Bytes. A session may be writing.
func (e *Entry) count() error {
	return filepath.WalkDir(e.upper(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == e.upper() || d.IsDir() {
			return nil
		}
		e.Files++
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			e.Bytes += info.Size()
		}
		return nil
	})
}

// Changes lists in what the overlay differs from the host's directory.
func (e Entry) Changes() ([]Change, error) {
	var out []Change
	err := filepath.WalkDir(e.upper(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(e.upper(), path)
		if err != nil || rel == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if c, ok := e.change(rel, path, info); ok {
			out = append(out, c)
		}
		return nil
	})
	return out, err
}

// change is what the entry rel of the upper layer says; false if it is only on the
// way to others.
func (e Entry) change(rel, path string, info fs.FileInfo) (Change, bool) {
	c := Change{Path: filepath.Join(e.Path, rel), Kind: Added, Mode: info.Mode(), ModTime: info.ModTime(), rel: rel}
	have, err := os.Lstat(c.Path)
	there := err == nil
	switch {
	case isWhiteout(info):
		return Change{Path: c.Path, Kind: Deleted, rel: rel}, there
	case info.IsDir() && there && have.IsDir():
		c.Kind = Replaced
		return c, isOpaque(path)
	case there && have.Mode().Type() != info.Mode().Type():
		c.Kind = Replaced
	case there:
		c.Kind = Modified
	}
	if info.Mode().IsRegular() {
		c.Bytes = info.Size()
	}
	return c, true
}

func isWhiteout(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0
}

// isOpaque reports whether nothing of the lower layer is seen in a directory.
func isOpaque(path string) bool {
	var b [1]byte
	n, err := unix.Lgetxattr(path, "user.overlay.opaque", b[:])
	return err == nil && n == 1 && b[0] == 'y'
}

// Apply puts what was written into the host's directory and empties the overlay. Secrets,
// and what lies in them, are never written or removed there.
func (e Entry) Apply(secrets []string) (done Applied, err error) {
	secrets = append(slices.Clone(secrets), e.Hidden...)
	l, err := takeSlot(filepath.Dir(e.dir))
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	changes, err := e.Changes()
	if err != nil {
		return done, err
	}
	if err := os.MkdirAll(e.Path, 0o755); err != nil {
		return done, err
	}
	host, err := os.OpenRoot(e.Path)
	if err != nil {
		return done, err
	}
	defer host.Close()
	a := applier{host: host, from: e.upper(), owner: -1}
	if info, err := host.Stat("."); err == nil && os.Geteuid() == 0 {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			a.owner, a.group = int(st.Uid), int(st.Gid)
		}
	}
	for _, c := range changes {
		if slices.ContainsFunc(secrets, c.touches) {
			done.Skipped = append(done.Skipped, c.Path+": it is where a secret belongs")
			continue
		}
		if why, err := a.apply(c); err != nil {
			return done, fmt.Errorf("%s: %w; the overlay is kept", c.Path, err)
		} else if why != "" {
			done.Skipped = append(done.Skipped, c.Path+": "+why)
			continue
		}
		done.Changes++
	}
	return done, l.discard(e.dir)
}

// touches reports whether the change is one of a secret, or of a directory with a secret.
func (c Change) touches(secret string) bool {
	if lexical.Within(c.Path, secret) {
		return true
	}
	_, err := os.Lstat(secret)
	return err == nil && (c.Kind == Deleted || c.Kind == Replaced) && lexical.Below(secret, c.Path)
}

// Discard throws away what was written.
func (e Entry) Discard() (err error) {
	l, err := takeSlot(filepath.Dir(e.dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return l.throwAway(e.dir)
}

// applier puts changes into a directory of the host. No symlink leads it out of there.
type applier struct {
	host         *os.Root
	from         string
	owner, group int // -1: who we are
}

// apply makes one change, or says why not.
func (a *applier) apply(c Change) (why string, err error) {
	if c.Kind == Deleted || c.Kind == Replaced {
		if err := a.host.RemoveAll(c.rel); err != nil {
			return "", err
		}
	}
	if c.Kind == Deleted {
		return "", nil
	}
	source := filepath.Join(a.from, c.rel)
	switch c.Mode.Type() {
	case fs.ModeDir:
		err := a.host.Mkdir(c.rel, c.Mode.Perm()|0o700)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		return "", a.own(c.rel)
	case fs.ModeSymlink:
		target, err := os.Readlink(source)
		if err != nil {
			return "", err
		}
		if err := a.host.Remove(c.rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		return "", errors.Join(a.host.Symlink(target, c.rel), a.own(c.rel))
	case 0:
		return "", a.file(source, c)
	}
	return "it is neither a file, a directory nor a symlink", nil
}

// file writes a file beside its place and renames it there.
func (a *applier) file(source string, c Change) (err error) {
	in, err := os.OpenFile(source, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	made := filepath.Join(filepath.Dir(c.rel), fmt.Sprintf(".sandbox-%d-%x", os.Getpid(), sum(c.rel)))
	out, err := a.host.OpenFile(made, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = a.host.Remove(made)
		}
	}()
	_, err = io.Copy(out, in)
	err = errors.Join(err, out.Chmod(c.Mode.Perm()), out.Close(), a.own(made), a.host.Chtimes(made, c.ModTime, c.ModTime))
	if err != nil {
		return err
	}
	return a.host.Rename(made, c.rel)
}

func (a *applier) own(rel string) error {
	if a.owner < 0 {
		return nil
	}
	return a.host.Lchown(rel, a.owner, a.group)
}
