package treesnap

import (
	"fmt"
	"io/fs"
	"sort"
	"strings"
	"time"
)

// Snapshot is a tree as it was when [Take] read it.
type Snapshot struct {
	Entries map[string]Entry
}

// Entry is one path.
type Entry struct {
	Type fs.FileMode // type bits only; 0 for a regular file
	Mode uint32      // 12 bits
	UID  uint32
	GID  uint32
	// MtimeNS is the modification time in nanoseconds since 1970.
	MtimeNS int64
	Xattrs  map[string]string
	Flags   uint32 // those that a user sets (chattr); regular files and directories only

	Size   int64  // bytes; regular files only
	Hash   string // of the content, whatever its holes; regular files only
	Target string // symlinks only
	Rdev   uint64 // devices only
	// Links is the number of links from outside of the tree.
	Links int
	// Group is the first path, in order, that names the same inode; empty for
	// directories and for a file with one name.
	Group string
	// Unreadable says what could not be read, and why.
	Unreadable string
}

// Options relax a comparison. The zero value is exact.
type Options struct {
	// MtimeTolerance allows modification times to differ by this much.
	MtimeTolerance time.Duration
	IgnoreMtime    bool
	IgnoreOwner    bool
	IgnoreXattrs   bool
	// IgnoreLinks leaves out links from outside of the tree, such as those by
	// which an undo log keeps a hard-linked file.
	IgnoreLinks bool
	// Exclude leaves a path out; a directory's content is asked for one by one.
	Exclude func(path string) bool
}

// Diff returns one line for each difference, in the order of paths; none means
// that the trees are equal.
func Diff(before, after *Snapshot, o Options) []string {
	var out []string
	for _, path := range union(before, after) {
		if o.Exclude != nil && o.Exclude(path) {
			continue
		}
		b, inBefore := before.Entries[path]
		a, inAfter := after.Entries[path]
		switch {
		case !inAfter:
			out = append(out, fmt.Sprintf("%q: missing (was %s)", path, b.describe()))
		case !inBefore:
			out = append(out, fmt.Sprintf("%q: unexpected %s", path, a.describe()))
		default:
			if d := diffEntry(b, a, o); len(d) > 0 {
				out = append(out, fmt.Sprintf("%q: %s", path, strings.Join(d, ", ")))
			}
		}
	}
	return out
}

// reporter is the part of testing.TB that is needed here.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// diffLines is how many differences [AssertEqual] prints.
const diffLines = 40

// AssertEqual fails t, listing the differences, unless the trees are equal. It
// reports whether they are.
func AssertEqual(t reporter, before, after *Snapshot, opts ...Options) bool {
	t.Helper()
	var o Options
	if len(opts) > 0 {
		o = opts[0]
	}
	d := Diff(before, after, o)
	if len(d) == 0 {
		return true
	}
	shown := d
	if len(shown) > diffLines {
		shown = append(shown[:diffLines:diffLines], fmt.Sprintf("... and %d more", len(d)-diffLines))
	}
	t.Errorf("trees differ in %d path(s):\n  %s", len(d), strings.Join(shown, "\n  "))
	return false
}

// Same fails the test at once, and says where they differ, unless the trees are equal, but for links from elsewhere: an undo log keeps files by them.
func Same(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, what string, want, got *Snapshot) {
	t.Helper()
	if d := Different(want, got); len(d) > 0 {
		t.Fatalf("%s: %d difference(s):\n  %s", what, len(d), strings.Join(d, "\n  "))
	}
}

// Different is [Diff] but for links from elsewhere.
func Different(want, got *Snapshot) []string { return Diff(want, got, Options{IgnoreLinks: true}) }

// Line is what is recorded of a path, but for links from elsewhere; "" if there is nothing.
func (s *Snapshot) Line(path string) string {
	e, ok := s.Entries[path]
	if !ok {
		return ""
	}
	e.Links = 0
	return fmt.Sprintf("%+v", e)
}

func union(x, y *Snapshot) []string {
	paths := make([]string, 0, len(x.Entries))
	for p := range x.Entries {
		paths = append(paths, p)
	}
	for p := range y.Entries {
		if _, ok := x.Entries[p]; !ok {
			paths = append(paths, p)
		}
	}
	sort.Strings(paths)
	return paths
}

func diffEntry(b, a Entry, o Options) []string {
	var d []string
	add := func(what string, was, is any) { d = append(d, fmt.Sprintf("%s %v, was %v", what, is, was)) }
	if b.Type != a.Type {
		add("type", typeName(b.Type), typeName(a.Type))
		return d
	}
	if b.Mode != a.Mode {
		add("mode", fmt.Sprintf("%04o", b.Mode), fmt.Sprintf("%04o", a.Mode))
	}
	if !o.IgnoreOwner && (b.UID != a.UID || b.GID != a.GID) {
		add("owner", fmt.Sprintf("%d:%d", b.UID, b.GID), fmt.Sprintf("%d:%d", a.UID, a.GID))
	}
	if delta := time.Duration(a.MtimeNS - b.MtimeNS).Abs(); !o.IgnoreMtime && delta > o.MtimeTolerance {
		add("mtime", time.Unix(0, b.MtimeNS).UTC().Format(time.RFC3339Nano), time.Unix(0, a.MtimeNS).UTC().Format(time.RFC3339Nano))
	}
	if !o.IgnoreXattrs && !equalXattrs(b.Xattrs, a.Xattrs) {
		add("xattrs", fmt.Sprintf("%q", b.Xattrs), fmt.Sprintf("%q", a.Xattrs))
	}
	if b.Flags != a.Flags {
		add("flags", fmt.Sprintf("%#x", b.Flags), fmt.Sprintf("%#x", a.Flags))
	}
	if b.Size != a.Size {
		add("size", b.Size, a.Size)
	} else if b.Hash != a.Hash {
		add("content", short(b.Hash), short(a.Hash))
	}
	if b.Target != a.Target {
		add("target", fmt.Sprintf("%q", b.Target), fmt.Sprintf("%q", a.Target))
	}
	if b.Rdev != a.Rdev {
		add("device", b.Rdev, a.Rdev)
	}
	if b.Group != a.Group {
		add("hard link of", fmt.Sprintf("%q", b.Group), fmt.Sprintf("%q", a.Group))
	}
	if !o.IgnoreLinks && b.Links != a.Links {
		add("links from elsewhere", b.Links, a.Links)
	}
	if b.Unreadable != a.Unreadable {
		add("unreadable", fmt.Sprintf("%q", b.Unreadable), fmt.Sprintf("%q", a.Unreadable))
	}
	return d
}

func equalXattrs(x, y map[string]string) bool {
	if len(x) != len(y) {
		return false
	}
	for k, v := range x {
		if w, ok := y[k]; !ok || w != v {
			return false
		}
	}
	return true
}

func (e Entry) describe() string {
	s := fmt.Sprintf("%s %04o", typeName(e.Type), e.Mode)
	switch {
	case e.Type == 0:
		s += fmt.Sprintf(", %d bytes", e.Size)
	case e.Type&fs.ModeSymlink != 0:
		s += fmt.Sprintf(" -> %q", e.Target)
	}
	return s
}

func typeName(m fs.FileMode) string {
	switch m {
	case 0:
		return "file"
	case fs.ModeDir:
		return "dir"
	case fs.ModeSymlink:
		return "symlink"
	case fs.ModeNamedPipe:
		return "fifo"
	case fs.ModeSocket:
		return "socket"
	}
	return m.String()
}

func short(h string) string {
	if len(h) > 12 {
		return h[:12]
	}
	return h
}
