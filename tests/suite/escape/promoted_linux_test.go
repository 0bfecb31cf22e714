package escape

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
)

// gated makes a session that holds what is in a directory, which it returns.
func gated(t *testing.T, b hypervisor.Bridge, put func(dir string, c *api.Config)) (l *lab, dir string) {
	t.Helper()
	l = newLab(t, func(l *lab, c *api.Config) {
		var err error
		dir, err = os.MkdirTemp(filepath.Dir(l.home), "gated-")
		must(t, err)
		t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
		must(t, os.Chmod(dir, 0o755))
		l.share, c.Gates, c.Bridge, c.Safeguards.Timeout = true, []string{dir}, b, patience
		put(dir, c)
	})
	return l, dir
}

// allow lets a command look at a path, and returns the question's id.
func (l *lab) allow(command, path string) (id string) {
	l.t.Helper()
	held := l.start("sh", "-c", command)
	id = l.decide(path, true)
	if r := held.wait(); r.err != nil || r.Status.Code != 0 {
		l.t.Fatalf("%s: %+v", command, r)
	}
	return id
}

// mountedAt waits until something is mounted at a path in the view, or nothing is, and returns its line.
func (l *lab) mountedAt(path string, is bool) string {
	l.t.Helper()
	until := "until"
	if !is {
		until = "while"
	}
	// Who walks there has the kernel ask the gate again.
	return l.works(until + " grep ' " + path + " ' /proc/self/mountinfo; do test -e " + path + "; sleep 0.05; done")
}

// TestPromoted: a directory that was allowed is mounted as it is, and nobody can write to it; what is hidden stays so; and the
// mount goes when the host puts another directory there, or the answer is taken back.
func TestPromoted(t *testing.T) { overBridges(t, promoted) }

func promoted(t *testing.T, b hypervisor.Bridge) {
	l, dir := gated(t, b, func(dir string, c *api.Config) {
		put(t, dir+"/sdk/x", "first")
		put(t, dir+"/sdk/bin/run", "#!/bin/sh\necho ran\n")
		must(t, os.Chmod(dir+"/sdk/bin/run", 0o755))
		put(t, dir+"/mixed/x", "mixed")
		put(t, dir+"/mixed/in/key", treasure)
		put(t, dir+"/key", treasure)
		must(t, os.Mkdir(dir+"/linked", 0o755))
		must(t, os.Link(dir+"/key", dir+"/linked/other"))
		put(t, dir+"/linked/x", "linked")
		c.Hide = append(c.Hide, dir+"/mixed/in", dir+"/key")
	})
	for _, name := range []string{"mixed", "linked"} { // what is hidden could be seen in their mounts
		l.allow("cat "+dir+"/"+name+"/x", dir+"/"+name)
	}
	for _, path := range []string{"/mixed/in/key", "/linked/other", "/key"} {
		l.refused("cat "+dir+path, treasure)
	}
	must(t, os.Remove(dir+"/linked/other")) // else no directory of this disk is mounted: the key may have another name there
	id := l.allow("cat "+dir+"/sdk/x", dir+"/sdk")
	line := l.mountedAt(dir+"/sdk", true)
	if !strings.Contains(line, " ro,nosuid,nodev") || strings.Contains(line, "fuse.sandbox") {
		t.Errorf("mounted: %s", line)
	}
	if out := l.works(dir + "/sdk/bin/run; cat " + dir + "/sdk/x"); out != "ran\nfirst" {
		t.Errorf("in the mount: %q", out)
	}
	for _, script := range []string{
		"echo no >" + dir + "/sdk/x", "touch " + dir + "/sdk/x", "chmod 777 " + dir + "/sdk", "rm " + dir + "/sdk/x", "umount " + dir + "/sdk", "mv " + dir + "/sdk " + dir + "/moved",
		"cat " + dir + "/mixed/in/key", "cat " + dir + "/key", "grep -e ' " + dir + "/mixed ' -e ' " + dir + "/linked ' /proc/self/mountinfo",
	} {
		l.refused(script, treasure)
	}
	opened := l.start("sh", "-c", "exec 3<"+dir+"/sdk/x; echo opened; read x; cat <&3")
	opened.expect("opened", patience)

	must(t, os.Rename(dir+"/sdk", dir+"/old"))
	put(t, dir+"/sdk/x", "second")
	l.works("until test \"$(cat " + dir + "/sdk/x)\" = second; do sleep 0.05; done")
	l.mountedAt(dir+"/sdk", true)

	must(t, l.TakeBack(t.Context(), api.TakeBackRequest{ID: id, By: "test"}))
	asks := l.start("sh", "-c", "while cat "+dir+"/sdk/x >/dev/null; do sleep 0.05; done; echo refused")
	l.decide(dir+"/sdk", false)
	asks.expect("refused", patience)
	l.refused("grep ' "+dir+"/sdk ' /proc/self/mountinfo || cat "+dir+"/sdk/x", "second")
	opened.say("")
	opened.expect("first", patience) // what is open stays open
}

// TestPromotedIsWhatWasAsked: if a name becomes a link to something else while a person is asked, the link is not what is mounted.
func TestPromotedIsWhatWasAsked(t *testing.T) { overBridges(t, promotedIsWhatWasAsked) }

func promotedIsWhatWasAsked(t *testing.T, b hypervisor.Bridge) {
	l, dir := gated(t, b, func(dir string, _ *api.Config) {
		put(t, dir+"/asked/x", "harmless")
		put(t, dir+"/keys/x", treasure)
		put(t, dir+"/later/x", "later")
	})
	held := l.start("cat", dir+"/asked/x")
	e := l.event(api.EventSafeguardTriggered)
	must(t, os.Rename(dir+"/asked", dir+"/before"))
	must(t, os.Symlink("keys", dir+"/asked"))
	must(t, l.Decide(t.Context(), api.DecideRequest{ID: e.Pending.ID, Allow: true, By: "test"}))
	if r := held.wait(); strings.Contains(r.out, treasure) {
		t.Errorf("read: %s", r.out)
	}
	l.allow("cat "+dir+"/later/x", dir+"/later") // mounts are made one after the other
	l.mountedAt(dir+"/later", true)
	l.refused("grep ' "+dir+"/asked ' /proc/self/mountinfo", "")
	leads := l.start("sh", "-c", "while cat "+dir+"/asked/x | grep harmless; do sleep 0.05; done; cat "+dir+"/asked/x")
	l.decide(dir+"/keys", false)
	if r := leads.wait(); strings.Contains(r.out, treasure) {
		t.Errorf("read: %s", r.out)
	}
}
