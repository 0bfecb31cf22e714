package vm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// underWriters: a guest has files open and goes on writing. Writers are held while steps are undone, and go on afterwards.
func underWriters(t *testing.T, l *live) {
	before := treesnap.MustTake(t, l.dir)
	l.sh(`cat a sub/c >/dev/null; ls -lR >/dev/null
(exec 3<a 4<sub/c; until [ -e /tmp/look ]; do usleep 50000; done; { cat <&3; cat <&4; echo looked; } >/tmp/seen 2>&1) >/dev/null 2>&1 </dev/null &
(until [ -e /tmp/enough ]; do echo line >>log || echo failed >>/tmp/failures; cat log >/dev/null; done; echo ended >/tmp/ended) >/dev/null 2>&1 </dev/null &
until [ -s log ]; do :; done`)
	l.sh("echo changed >a; rm -r sub; mkdir new; echo x >new/y")
	log := filepath.Join(l.dir, "log")
	writes := func() bool { st, err := os.Stat(log); return err == nil && st.Size() > 0 }
	for undone := 0; ; undone++ {
		if b, err := os.ReadFile(filepath.Join(l.dir, "a")); err == nil && string(b) == "first\n" {
			break
		}
		if undone > 20 {
			t.Fatal("the change is not undone")
		}
		until(t, "the writer goes on", writes)
		l.undo(1) // often just what was written meanwhile
	}
	if got := l.sh("cat a sub/c; [ ! -e new ]; touch /tmp/look; until grep -qs looked /tmp/seen; do usleep 50000; done"); got != "first\nthird\n" {
		t.Errorf("after the undo, inside: %q", got)
	}
	// What was open is the folder's again, or says that it is gone.
	seen := l.sh("cat /tmp/seen")
	for line := range strings.Lines(seen) {
		if line = strings.TrimSpace(line); line != "first" && line != "third" && line != "looked" && !strings.Contains(line, "Stale file handle") {
			t.Errorf("files that were open read %q", seen)
		}
	}
	until(t, "the writer goes on", writes)
	if got := l.sh("touch /tmp/enough; until [ -e /tmp/ended ]; do usleep 50000; done; cat /run/sandbox/rollback; cat /tmp/failures 2>/dev/null | wc -l"); !strings.HasSuffix(got, "\n0\n") || len(got) < 4 {
		t.Errorf("the last step undone, and failed writes: %q", got)
	}
	for {
		steps, err := l.s.History(t.Context(), api.HistoryRequest{})
		check(t, err)
		if len(steps) == 0 {
			break
		}
		l.undo(1)
	}
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.dir))
	if got := l.sh("cat a b sub/c; ls"); got != "first\nsecond\nthird\na\nb\nsub\n" {
		t.Errorf("inside: %q", got)
	}
}

// windowsFolder (WN-01, WN-02, WN-03, WN-05 through a machine): modes, symlinks and names of a folder that cannot hold them.
func windowsFolder(t *testing.T, l *live) {
	before := treesnap.MustTake(t, l.dir)
	const state = "stat -c '%n %a %F' * sub/*; readlink l || true"
	was := l.sh(state)
	got := l.sh(`chmod 711 a; ln -s a l; mv sub d; chmod 600 d/c; mkfifo p
for name in CON nul.txt 'a:b' end. A; do if { echo x >"$name"; } 2>/dev/null; then echo "made $name"; fi; done
stat -c '%n %a %F' a d/c l p; cat l; readlink l`)
	want := "a 711 regular file\nd/c 600 regular file\nl 777 symbolic link\np 644 fifo\nfirst\na\n"
	if got != want {
		t.Errorf("inside %q, want %q", got, want)
	}
	for name, wantMode := range map[string]os.FileMode{"a": 0o644, "d/c": 0o644, "l": 0o644, "p": 0o644} {
		if st, err := os.Lstat(filepath.Join(l.dir, name)); err != nil || st.Mode() != wantMode {
			t.Errorf("%s is %v on the host, %v", name, st.Mode(), err)
		}
	}
	l.undo(1)
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.dir))
	if got := l.sh(state); got != was {
		t.Errorf("undone: %q, want %q", got, was)
	}
}
