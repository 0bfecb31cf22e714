package jail

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages/lexical"
)

// links looks for the further names of hidden files: hard links, by which a file can be read that is hidden by its path. Nothing is searched while there are
// none, and the kernel tells that with the file's attributes.
type links struct {
	wanted map[inode]*linked
	names  int       // that were looked at
	until  time.Time // when the search ends
}

// inode is a file, while it is there.
type inode struct{ dev, ino uint64 }

// linked is a hidden file that has several names.
type linked struct {
	secret hypervisor.Secret // its path is a name of the file
	total  int               // of its names
	found  []string
}

// The bounds of a search, and of what is looked at to find that one is needed: what lies directly in directories with keys.
const (
	mostNames  = 20_000
	longest    = time.Second
	mostInside = 64
)

// look notes a secret that has further names, and in a directory with keys those that lie in it.
func (l *links) look(s hypervisor.Secret, st *unix.Stat_t) {
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		l.want(s, st)
		return
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || s.What != "keys" && s.What != "clouds" && s.What != "containers" {
		return
	}
	f, err := os.Open(s.Path)
	if err != nil {
		return
	}
	defer f.Close()
	list, _ := f.Readdirnames(mostInside)
	for _, name := range list {
		in := hypervisor.Secret{Path: filepath.Join(s.Path, name), What: s.What, Source: s.Source}
		if unix.Lstat(in.Path, st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			l.want(in, st)
		}
	}
}

func (l *links) want(s hypervisor.Secret, st *unix.Stat_t) {
	if st.Nlink < 2 {
		return
	}
	if l.wanted == nil {
		l.wanted = map[inode]*linked{}
	}
	if at := (inode{st.Dev, st.Ino}); l.wanted[at] == nil {
		l.wanted[at] = &linked{secret: s, total: int(st.Nlink)} //nolint:unconvert // 32 bits on arm64
	}
}

// otherNames finds them beside the secrets, in the working folders and in the home directory, and returns those that are not hidden yet. A file of which some
// name is not found is a note to the user.
func (p *planner) otherNames(l *links, hidden []hypervisor.Secret) (out []hypervisor.Secret) {
	var queue []string
	for _, w := range l.wanted {
		queue = append(queue, filepath.Dir(w.secret.Path))
	}
	slices.Sort(queue)
	l.search(slices.Concat(slices.Compact(queue), p.shares, []string{p.user.Home}))
	for _, w := range l.wanted {
		for _, path := range w.found {
			if !slices.ContainsFunc(hidden, func(h hypervisor.Secret) bool { return lexical.Within(path, h.Path) }) && !slices.Contains(p.show, path) {
				out = append(out, hypervisor.Secret{Path: path, What: w.secret.What, Source: "another name (hard link) of " + w.secret.Path})
			}
		}
		if missing := w.total - len(w.found); missing > 0 {
			p.notes = append(p.notes, fmt.Sprintf("%s has %d more name(s) that were not found; where one is visible inside, it can be read by that name: 'find / -xdev -samefile %s' finds them, and --hide hides them", w.secret.Path, missing, w.secret.Path))
		}
	}
	slices.Sort(p.notes)
	return out
}

// search looks in directories and in those below them, the nearest first, until all is found or a bound is reached.
func (l *links) search(queue []string) {
	l.until = time.Now().Add(longest)
	seen := map[string]bool{}
	for len(queue) > 0 && l.names < mostNames {
		dir := queue[0]
		queue = queue[1:]
		if seen[dir] {
			continue
		}
		seen[dir] = true
		if queue = append(queue, l.directory(dir)...); l.done() {
			return
		}
	}
}

// done tells whether there is nothing more to look for, or no more time.
func (l *links) done() bool {
	open := false
	for _, w := range l.wanted {
		open = open || len(w.found) < w.total
	}
	return !open || l.names > mostInside && time.Now().After(l.until)
}

// directory notes names in a directory and returns the directories in it, if a file that is looked for may be there.
func (l *links) directory(dir string) (below []string) {
	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || !l.on(st.Dev) {
		return nil
	}
	for l.names < mostNames {
		list, err := f.ReadDir(256)
		for _, e := range list {
			l.names++
			path := filepath.Join(dir, e.Name())
			if e.IsDir() {
				below = append(below, path)
			} else if e.Type().IsRegular() && unix.Lstat(path, &st) == nil && st.Nlink > 1 {
				l.note(path, &st)
			}
		}
		if err != nil {
			break
		}
	}
	return below
}

func (l *links) note(path string, st *unix.Stat_t) {
	if w := l.wanted[inode{st.Dev, st.Ino}]; w != nil && !slices.Contains(w.found, path) {
		w.found = append(w.found, path)
	}
}

// on tells whether a file that is looked for is on that file system.
func (l *links) on(dev uint64) bool {
	for at := range l.wanted {
		if at.dev == dev {
			return true
		}
	}
	return false
}
