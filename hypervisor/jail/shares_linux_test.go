package jail_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// watchers makes inotify instances until it is refused one.
const watchers = `import ctypes, sys
libc, n = ctypes.CDLL(None), 0
while n < int(sys.argv[1]) and libc.inotify_init1(0) >= 0:
    n += 1
print(n)
`

// TestW10Share: what each user has a number of is not used up from inside: a session gets three quarters, and nobody inside can change that.
func TestW10Share(t *testing.T) {
	require.Program(t, "python3", "python3")
	var fs unix.Statfs_t
	if err := unix.Statfs("/proc/sys/user", &fs); err != nil || fs.Flags&unix.ST_RDONLY != 0 {
		return // a container keeps us from it
	}
	j := start(t, nil)
	all := func(file string) int {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for name, outside := range map[string]string{
		"max_inotify_instances": "/proc/sys/fs/inotify/max_user_instances", "max_inotify_watches": "/proc/sys/fs/inotify/max_user_watches",
		"max_fanotify_groups": "/proc/sys/user/max_fanotify_groups", "max_fanotify_marks": "/proc/sys/user/max_fanotify_marks",
	} {
		n := all(outside)
		if got := j.sh("cat /proc/sys/user/" + name); got != strconv.Itoa(n-n/4) {
			t.Errorf("%s: %s, of %d", name, got, n)
		}
		j.sh("! echo 1000000000 >/proc/sys/user/" + name)
	}
	n := all("/proc/sys/fs/inotify/max_user_instances")
	out := j.sh("cat >w.py <<'E'\n" + watchers + "E\npython3 w.py " + strconv.Itoa(n))
	if got, err := strconv.Atoi(out); err != nil || got > n-n/4 {
		t.Errorf("inside, %s instances of %d could be made", out, n)
	}
}
