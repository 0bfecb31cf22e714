package hostfs

import (
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// TestU12Times takes moments that a file can have apart and joins them again.
func TestU12Times(t *testing.T) {
	seen := map[int64]string{}
	for _, c := range []struct{ at, want string }{
		{"1969-12-31T23:59:59.999999999Z", ""}, {"1970-01-01T00:00:00Z", ""},
		{"1901-12-13T20:45:52Z", ""}, {"1600-01-01T00:00:00Z", "1901-12-13T20:45:52Z"},
		{"2026-11-26T17:00:00.123456789Z", ""},
		{"2262-04-11T23:47:16.854775807Z", ""}, {"2262-04-11T23:47:17Z", ""}, {"2300-01-01T00:00:00.5Z", ""},
		{"2446-05-10T22:38:55.999999999Z", ""}, {"2486-07-02T20:20:24.5Z", ""},
		{"2600-01-01T00:00:00Z", "2486-07-02T20:20:24Z"},
	} {
		at, err := time.Parse(time.RFC3339Nano, c.at)
		if err != nil {
			t.Fatal(err)
		}
		ns := Nanoseconds(at.Unix(), int64(at.Nanosecond()))
		if c.want == "" {
			if before := seen[ns]; before != "" {
				t.Errorf("%s and %s are one number", before, c.at)
			}
			seen[ns], c.want = c.at, c.at
		}
		if got := time.Unix(Seconds(ns)).UTC().Format(time.RFC3339Nano); got != c.want {
			t.Errorf("%s became %s, want %s", c.at, got, c.want)
		}
	}
	if ns := Nanoseconds(1_600_000_000, 5); ns != 1_600_000_000_000_000_005 {
		t.Errorf("an ordinary time became %d", ns)
	}
}

// What was changed before a look at the clock has no later time: by that an edit from outside is told from what a step has done.
func TestNowIsNotBehindFiles(t *testing.T) {
	r, err := OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fd, err := OpenAt(r.FD(), "f", posix.O_RDWR|posix.O_CREAT, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(fd)
	for i := range 500 {
		err := PwriteFull(fd, []byte{byte(i)}, 0)
		now := posix.Now()
		st, serr := StatFD(fd)
		if err != nil || serr != nil {
			t.Fatal(err, serr)
		}
		if st.Ctime > now {
			t.Fatalf("change %d was %v after it was over", i, time.Duration(st.Ctime-now))
		}
	}
}
