package undologtest

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// lookAt asks the system itself, and not the package on which the log stands.
func lookAt(t T, p string) look {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		t.Fatalf("%v", err)
	}
	l := look{mode: st.Mode, ino: st.Ino, line: fmt.Sprintf("%o %d:%d mtime %d", st.Mode, st.Uid, st.Gid, st.Mtim.Nano())}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		l.attributes = attributesIn(p)
	}
	l.opens = st.Mode&unix.S_IFMT == unix.S_IFDIR && unix.Access(p, unix.R_OK|unix.X_OK) == nil
	return l
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

// plain: the file system has neither symlinks nor attributes.
const plain = false

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
