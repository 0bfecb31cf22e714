package undologtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
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
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			t.Fatalf("%v", err)
		}
		line := fmt.Sprintf("%o %d:%d mtime %d", st.Mode, st.Uid, st.Gid, st.Mtim.Nano())
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(p)
			if err != nil && !errors.Is(err, unix.EACCES) {
				t.Fatalf("%v", err)
			}
			line += fmt.Sprintf(" size %d sum %x", len(b), sha256.Sum256(b))
			if len(b) < 40 {
				line += fmt.Sprintf(" %q", b)
			}
		case unix.S_IFLNK:
			target, _ := os.Readlink(p)
			line += " -> " + target
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			line += attributesIn(p)
		}
		out[rel] = line
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			groups[st.Ino] = append(groups[st.Ino], rel)
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			if unix.Access(p, unix.R_OK|unix.X_OK) != nil {
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

// attributesIn lists the attributes of path, those that may not be read without
// their values.
func attributesIn(path string) (line string) {
	buf := make([]byte, 4096)
	n, _ := unix.Llistxattr(path, buf)
	names := strings.Split(strings.TrimRight(string(buf[:max(n, 0)]), "\x00"), "\x00")
	sort.Strings(names)
	for _, name := range names {
		if n, err := unix.Lgetxattr(path, name, buf); err == nil {
			line += fmt.Sprintf(" %s=%q", name, buf[:n])
		} else if name != "" {
			line += " " + name
		}
	}
	return line
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

// TellsWriters tells whether the system says who can write to a file in dir. Without that, an undo gives no setuid back to a file that it changes in place.
func TellsWriters(t T, dir string) bool {
	t.Helper()
	name := filepath.Join(dir, "who writes")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatalf("%v", err)
	}
	defer os.Remove(name)
	f, err := os.Open(name)
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer f.Close()
	_, known := hostfs.Written(int(f.Fd()))
	return known
}
