package vm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor/qemu"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// keeping writes something in each place that a persistent machine keeps, and
// kept shows what is there of it.
const (
	keeping = "echo home >~/kept; printf '#!/bin/sh\\necho installed\\n' >/usr/local/bin/tool; chmod +x /usr/local/bin/tool; echo gone >/tmp/kept"
	kept    = "cat ~/kept /tmp/kept 2>/dev/null; tool 2>/dev/null; true"
)

// What a machine writes outside of the folders is gone with it, unless it is
// persistent; then one session at a time has it, until it is reset. An undo does
// not touch it. (SL-03, SL-04)
func TestPersistent(t *testing.T) {
	s := sandbox(t)
	before := s.Snapshot(t)
	persistent := func(script string) []string {
		return inMachine("--vm-mode", "persistent", "--memory", "256MiB", "--", "sh", "-c", script)
	}
	p := begin(t, s.Command(t.Context(), persistent(keeping+"; echo x >new; echo written; cat >/dev/null; sleep 1000")...))
	p.until("written")
	if r := s.Do(t, "guest", "reset"); r.Code == 0 || !strings.Contains(r.Stderr, "another session has this machine's disk") {
		t.Errorf("a reset while a session has it: exit status %d, %s", r.Code, r.Stderr)
	}
	check(t, p.cmd.Process.Signal(os.Interrupt))
	p.code()
	for mode, want := range map[string]string{"ephemeral": "", "persistent": "home\ninstalled\n"} {
		if r := s.Must(t, inMachine("--vm-mode", mode, "--memory", "256MiB", "--", "sh", "-c", kept)...); r.Stdout != want {
			t.Errorf("the next machine, %s: %q, want %q", mode, r.Stdout, want)
		}
	}
	s.Must(t, "undo")
	treesnap.AssertEqual(t, before, s.Snapshot(t))

	disks := disksOf(t, s.State)
	if len(disks) != 1 {
		t.Fatalf("disks: %q", disks)
	}
	var out struct{ Removed bool }
	check(t, json.Unmarshal([]byte(s.Must(t, "guest", "reset", "--json").Stdout), &out))
	if left := disksOf(t, s.State); !out.Removed || len(left) != 0 {
		t.Errorf("a reset: %+v, %q", out, left)
	}

	// What somebody has done to the disk is the guest's to find out.
	check(t, os.Mkdir(filepath.Dir(disks[0]), 0o700))
	check(t, os.WriteFile(disks[0], make([]byte, 8<<20), 0o600))
	r := s.Do(t, persistent("true")...)
	if r.Code != 125 || !strings.Contains(r.Stderr, "sandbox guest reset") || !strings.Contains(r.Stderr, "mounting the persistent disk") {
		t.Errorf("a damaged disk: exit status %d, %s", r.Code, r.Stderr)
	}
	s.CheckResidue(t)
}

// disksOf are the persistent machines' disks below a directory.
func disksOf(t *testing.T, dir string) []string {
	t.Helper()
	var disks []string
	check(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if filepath.Base(path) == "disk.raw" {
			disks = append(disks, path)
		}
		return err
	}))
	return disks
}

// A session's reset wipes its persistent machine (SL-05), here one with the general kernel, which a release has. A disk that is full is
// that inside, and nothing worse.
func TestPersistentReset(t *testing.T) {
	l := startLive(t, func(_ *api.Config, o *qemu.Options) {
		o.NineP = true
		o.Disk = qemu.Disk{Path: filepath.Join(t.TempDir(), "m", "disk.raw"), Bytes: qemu.MinDiskBytes}
	})
	l.sh(keeping)
	got := l.sh("cd; dd if=/dev/zero of=big bs=1M count=70 2>&1; rm big; echo still >more && sync && cat more")
	if !strings.Contains(got, "No space left on device") || !strings.HasSuffix(got, "still\n") {
		t.Errorf("a full disk: %q", got)
	}
	if got := l.sh(kept); got != "home\ngone\ninstalled\n" {
		t.Errorf("before: %q", got)
	}
	check(t, l.s.Reset(t.Context()))
	if got := l.sh(kept + "; cat a"); got != "first\n" {
		t.Errorf("after: %q", got)
	}
}
