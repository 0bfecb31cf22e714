//go:build linux && faults

package undolog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// user writes into the folder of a world from outside. Each content that they write is one that nobody else writes,
// so that it can be looked for in the folder and in the log.
type user struct {
	t      *rapid.T
	w      *world
	n      int
	need   map[string]bool // contents that the user has not given up
	loose  map[string]bool // of those, what may count as a step's own, because it was written while the step ran
	during map[string]bool // of those, what was written since the open step has begun
}

var contentOfUser = regexp.MustCompile(`<user \d+>`)

// places says where contents of the user are.
type places struct {
	folder, log, redo map[string]bool // log is what an undo leads to, redo what only a redo does
}

// scan looks for the user's contents.
func (u *user) scan() places {
	p := places{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	scanInto(u.w.base+"/work", p.folder)
	for _, dir := range []string{"steps", "wal", rollbackName} {
		scanInto(u.w.opts.Dir+"/"+dir, p.log)
	}
	scanInto(u.w.opts.Dir+"/redo", p.redo)
	return p
}

func scanInto(dir string, found map[string]bool) {
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		b, _ := os.ReadFile(p)
		for _, c := range contentOfUser.FindAll(b, -1) {
			found[string(c)] = true
		}
		return nil
	})
}

// content is a new one, some times over, so that it survives that a step writes to a part of the file.
func (u *user) content(running bool) string {
	u.n++
	c := fmt.Sprintf("<user %d>", u.n)
	u.need[c] = true
	if running {
		u.loose[c], u.during[c] = true, true
	}
	return strings.Repeat(c, rapid.SampledFrom([]int{4, 50, 900}).Draw(u.t, "times"))
}

// edit changes something in the folder. running says that a step is open, or that what was killed may count the edit
// as its own.
func (u *user) edit(running bool) {
	p, before := genPath(u.t, u.w), u.scan()
	at := u.w.base + "/work/" + p
	op := rapid.SampledFrom([]string{
		"write", "write", "write", "save", "save", "append", "inside", "remove", "rename", "chmod", "mkdir", "link", "symlink", "touch", "clone",
	}).Draw(u.t, "edit")
	to := ""
	var err error
	switch op {
	case "write":
		_ = os.MkdirAll(filepath.Dir(at), 0o755)
		err = u.put(at, running)
	case "save": // as editors do
		_ = os.MkdirAll(filepath.Dir(at), 0o755)
		if err = u.put(at+"~", running); err == nil {
			err = os.Rename(at+"~", at)
		}
	case "append", "inside":
		err = u.writeInto(at, op == "append", running)
	case "remove":
		err = os.RemoveAll(at)
	case "rename":
		to = genPath(u.t, u.w)
		err = os.Rename(at, u.w.base+"/work/"+to)
	case "chmod":
		err = os.Chmod(at, rapid.SampledFrom([]os.FileMode{0o755, 0o644, 0o600}).Draw(u.t, "mode"))
	case "mkdir":
		err = os.MkdirAll(at, 0o755)
	case "link":
		to = genPath(u.t, u.w)
		err = os.Link(at, u.w.base+"/work/"+to)
	case "symlink":
		err = os.Symlink("nowhere", at)
	case "touch":
		err = os.Chtimes(at, time.Unix(int64(u.n), 0), time.Unix(int64(u.n), 0))
	case "clone": // mv d d.old; cp -a d.old d
		if err = os.Rename(at, at+".old"); err == nil {
			err = os.CopyFS(at, os.DirFS(at+".old"))
			to = p + ".old"
		}
	}
	u.t.Logf("DID user %s %s %s: %v (running %v)", op, p, to, err, running)
	if running && (op == "rename" || op == "clone") { // what is there now may be taken for the step's own
		for c := range u.need {
			u.loose[c] = u.loose[c] || before.folder[c]
		}
	}
	u.w.Forget()
	u.gaveUp(before)
	if running {
		u.replaced(before)
	}
}

// put makes a file with a content, or overwrites one.
func (u *user) put(path string, running bool) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NONBLOCK, 0o644) // it may be a pipe
	if err != nil {
		return err
	}
	_, err = f.WriteString(u.content(running))
	return errors.Join(err, f.Close())
}

func (u *user) writeInto(path string, end, running bool) error {
	st, err := os.Lstat(path)
	if err != nil || !st.Mode().IsRegular() {
		return errNoSuch
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	off := int64(0)
	if end {
		off = st.Size()
	}
	_, err = f.WriteAt([]byte(u.content(running)), off)
	return errors.Join(err, f.Close())
}

// gaveUp forgets contents that the user has overwritten or removed since before, or never could write.
func (u *user) gaveUp(before places) {
	now := u.scan()
	for c := range u.need {
		if !now.folder[c] && (before.folder[c] || !before.log[c] && !before.redo[c]) {
			delete(u.need, c)
		}
	}
}

// lost makes sure that after an operation all contents are there. before is where they were; forced says that
// the operation was asked to overwrite them, so that a redo brings them back; dropped that it has dropped what could be done again.
func (u *user) lost(what string, before places, forced, dropped bool) {
	u.t.Helper()
	now := u.scan()
	for c := range u.need {
		switch {
		case u.during[c] && what == "a step" && !now.folder[c]: // the step has changed that file before
			delete(u.need, c)
		case now.folder[c] || now.log[c]:
		case now.redo[c]:
			if !forced && before.folder[c] && !u.loose[c] {
				u.t.Fatalf("%s took %s away, which nobody asked for", what, c)
			}
		case dropped && !before.folder[c] && !before.log[c]:
			delete(u.need, c)
		default:
			u.t.Fatalf("%s lost %s (before: folder %v, log %v, redo %v)", what, c, before.folder[c], before.log[c], before.redo[c])
		}
	}
}

// replaced forgets what the open step has overwritten before: the user may have put another file in its place, which
// is what an undo leads to then.
func (u *user) replaced(before places) {
	for c := range u.need {
		if !before.folder[c] && before.log[c] {
			delete(u.need, c)
		}
	}
}

// patient waits until what is written now does not count as written by what was killed.
func (u *user) patient() {
	u.t.Helper()
	var last int64
	for _, dir := range []string{"wal/" + store.OpenName, rollbackName} {
		fd, err := unix.Open(u.w.opts.Dir+"/"+dir, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		u.w.ok(err)
		death, err := store.ReadAlive(fd)
		u.w.ok(err)
		last = max(last, death.Step().UnixNano())
		_ = hostfs.Close(fd)
	}
	probe := u.w.base + "/probe"
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		u.w.ok(os.WriteFile(probe, nil, 0o600))
		var st unix.Stat_t
		u.w.ok(unix.Stat(probe, &st))
		if st.Ctim.Nano() > last {
			return
		}
		ts := unix.NsecToTimespec(int64(2 * time.Millisecond))
		_ = unix.Nanosleep(&ts, nil)
	}
	u.t.Fatalf("what was killed has not ended: %v", last)
}
