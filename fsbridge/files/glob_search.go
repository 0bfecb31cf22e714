package files

import (
	"cmp"
	"container/heap"
	"context"
	"path"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/texts"
)

// Glob finds files, or directories, by a pattern. Symlinks are found as such and
// not followed, other than in Path and in the part of the pattern before its
// first wildcard. A pattern that begins where nothing is finds nothing.
func (f *Folder) Glob(ctx context.Context, r GlobRequest) (Found, error) {
	ctx, leave, err := f.enter(ctx)
	if err != nil {
		return Found{}, err
	}
	defer leave()
	most, err := limit("limit", r.Limit, DefaultFound)
	if err != nil {
		return Found{}, err
	}
	base, rest, dirs, err := splitGlob(r.Pattern)
	if err != nil {
		return Found{}, err
	}
	start, err := f.globStart(r.Path, base)
	if err != nil {
		return Found{}, err
	}
	n := newest{most: most}
	depth := depthOf(rest)
	w := &walker{f: f, depth: depth, search: true, gitignore: !r.Ignored}
	w.visit = func(d *dir, name string, kind uint8) (bool, error) {
		if (kind == posix.DT_DIR) != dirs {
			return true, nil
		}
		p := join(d.shown, name)
		if !texts.Match(rest, below(p, start)) {
			return true, nil
		}
		st, err := hostfs.StatAt(d.fd, name)
		if err == nil && !f.hidden.Inode(st.ID) {
			n.add(found{p, st.Mtime})
		}
		return true, nil
	}
	if err := w.walk(ctx, start); err != nil && !vanished(err) {
		return Found{}, fail("search", start, err)
	}
	return Found{Paths: n.paths(), Truncated: n.more || w.cut, Unreadable: w.unreadable}, nil
}

// globStart returns where to begin. What is not there is an error if it is the
// path that was asked for.
func (f *Folder) globStart(from, base string) (string, error) {
	if path.IsAbs(base) {
		return f.Rel(base)
	}
	rel, err := f.Rel(from)
	if err != nil {
		return "", err
	}
	if from != "" {
		t, err := f.resolve(rel)
		if err != nil {
			return "", fail("search", rel, err)
		}
		t.close()
		if !t.st.IsDir() {
			return "", fail("search", rel, posix.ENOTDIR)
		}
	}
	return Clean(join(rel, base), f.root.Path())
}

// below returns a path relative to a directory that it is in.
func below(p, dir string) string {
	if dir == "." {
		return p
	}
	return strings.TrimPrefix(p, dir+"/")
}

type found struct {
	path  string
	mtime int64
}

// newest keeps the newest of what is found, with the oldest of it at hand.
type newest struct {
	most int
	more bool
	list []found
}

func (n *newest) add(f found) {
	heap.Push(n, f)
	if len(n.list) > n.most {
		heap.Pop(n)
		n.more = true
	}
}

// order is that of the result: newest first, then by path.
func order(a, b found) int {
	return cmp.Or(cmp.Compare(b.mtime, a.mtime), strings.Compare(a.path, b.path))
}

func (n *newest) Len() int           { return len(n.list) }
func (n *newest) Less(i, j int) bool { return order(n.list[i], n.list[j]) > 0 }
func (n *newest) Swap(i, j int)      { n.list[i], n.list[j] = n.list[j], n.list[i] }
func (n *newest) Push(x any)         { n.list = append(n.list, x.(found)) }
func (n *newest) Pop() any {
	last := len(n.list) - 1
	x := n.list[last]
	n.list = n.list[:last]
	return x
}

func (n *newest) paths() []string {
	slices.SortFunc(n.list, order)
	out := make([]string, len(n.list))
	for i, f := range n.list {
		out[i], _ = Escape(f.path)
	}
	return out
}
