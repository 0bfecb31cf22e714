package undologtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// T is what testing.T and rapid.T have in common.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// Tree describes a directory tree: a line for each path below its root.
type Tree = map[string]string

// Snapshot describes everything below root: types, modes, owners, times, contents,
// attributes, and which names are one inode. What may not be read is left out.
func Snapshot(t T, root string) Tree {
	t.Helper()
	out, groups := map[string]string{}, map[uint64][]string{}
	var walk func(p, rel string)
	walk = func(p, rel string) {
		look := lookAt(t, p)
		line := look.line
		switch look.mode & posix.S_IFMT {
		case posix.S_IFREG:
			b, err := os.ReadFile(p)
			if err != nil && !errors.Is(err, fs.ErrPermission) {
				t.Fatalf("%v", err)
			}
			line += fmt.Sprintf(" size %d sum %x", len(b), sha256.Sum256(b))
			if len(b) < 40 {
				line += fmt.Sprintf(" %q", b)
			}
		case posix.S_IFLNK:
			target, _ := os.Readlink(p)
			line += " -> " + target
		}
		out[rel] = line + look.attributes
		if look.mode&posix.S_IFMT != posix.S_IFDIR {
			groups[look.ino] = append(groups[look.ino], rel)
			return
		}
		if !look.opens {
			return
		}
		entries, err := os.ReadDir(p)
		if err != nil {
			t.Fatalf("%v", err)
		}
		for _, e := range entries {
			walk(p+"/"+e.Name(), rel+"/"+e.Name())
		}
	}
	walk(root, ".")
	for _, g := range groups {
		sort.Strings(g)
		for _, rel := range g {
			out[rel] += " links " + strings.Join(g, ",")
		}
	}
	return out
}

// look is what the system says of a path, as text, and without following it. A directory that does not open is not to be read.
type look struct {
	mode             uint32
	ino              uint64
	line, attributes string
	opens            bool
}

// Same fails the test, and says where they differ, unless both trees are the same.
func Same(t T, what string, want, got Tree) {
	t.Helper()
	if diff := Differences(want, got); len(diff) > 0 {
		t.Fatalf("%s: %d difference(s):\n%s", what, len(diff), strings.Join(diff, "\n"))
	}
}

// Differences describes each path at which the trees differ, sorted.
func Differences(want, got Tree) (diff []string) {
	for p, l := range want {
		if got[p] != l {
			diff = append(diff, fmt.Sprintf("%s\n   want %s\n   got  %s", p, l, got[p]))
		}
	}
	for p, l := range got {
		if want[p] == "" {
			diff = append(diff, fmt.Sprintf("%s\n   want nothing\n   got  %s", p, l))
		}
	}
	sort.Strings(diff)
	return diff
}
