//go:build linux

package jail_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail"
)

// hides are what is hidden in a home directory, and what cannot be read then.
var hides = []struct{ hide, unread string }{
	{"Documents", "Documents/x"},                 // shown as the host has it, beside the overlay
	{"Documents/private", "Documents/private/x"}, // a part of that
	{"Documents/x", "Documents/x"},               // a file in it
	{"notes", "notes"},                           // a file of the overlay
	{".tool/state", ".tool/state/x"},             // a directory of the overlay
	{".cache/tool", ".cache/tool/x"},             // in an overlay in the overlay
	{"cached", "cached/x"},                       // an overlay of its own would lie there
	{"gone/../Documents", "Documents/x"},         // by another name
	{"link", "Documents/x"},                      // through a link
	{"", "Documents/x"},                          // all of it
	{"", "notes"},
}

// TestW1HiddenIsHidden: what is hidden cannot be read, and why says so, whatever else is made of the place where it lies: an
// overlay, a directory that is kept as the host has it, a gate; over each bridge; with a working folder in it, too.
func TestW1HiddenIsHidden(t *testing.T) {
	for _, mediated := range []bool{false, true} {
		for _, view := range []string{"overlay", "read-only", "dynamic", "folder within"} {
			t.Run(fmt.Sprintf("mediated %v/%s", mediated, view), func(t *testing.T) {
				for _, c := range hides {
					hiddenIsHidden(t, mediated, view, c.hide, c.unread)
				}
			})
		}
	}
}

func hiddenIsHidden(t *testing.T, mediated bool, view, hide, unread string) {
	t.Run(strings.ReplaceAll(hide+" "+unread, "/", ":"), func(t *testing.T) {
		home := ownHome(t)
		t.Setenv("XDG_CACHE_HOME", filepath.Join(home, ".cache"))
		for _, name := range []string{"Documents/x", "Documents/private/x", "notes", ".tool/state/x", ".cache/tool/x", "cached/x", "gone/x", "beside/x", "work/x"} {
			put(t, home, name, "SECRET")
		}
		must(t, os.Symlink(filepath.Join(home, "Documents"), filepath.Join(home, "link")))
		p := hypervisor.Places{Store: filepath.Join(t.TempDir(), "store"), Home: view != "read-only", Caches: true}
		var config hypervisor.Config
		var a answering
		j := start(t, func(c *hypervisor.Config) {
			c.Places, c.Hide = p, []string{filepath.Join(home, hide)}
			if view == "folder within" {
				must(t, os.Lchown(filepath.Join(home, "work"), os.Getuid(), -1))
				c.Shares = append(c.Shares, share(filepath.Join(home, "work"), nil))
			}
			if mediated {
				a.mediated(t)(c)
			}
			if c.Dynamic = view == "dynamic"; c.Dynamic {
				c.Gate, c.Opened = func(dir string) hypervisor.Share { return share(dir, nil) }, []string{filepath.Join(home, "Documents")}
			}
			config = *c
		})
		path := filepath.Join(home, unread)
		if out, st, err := j.run("cat", path); err != nil || st.Code == 0 || strings.Contains(out, "SECRET") {
			t.Errorf("%s can be read: %s (%d, %v)", path, out, st.Code, err)
		}
		if s, err := jail.Explain(config, path); err != nil || s.Read {
			t.Errorf("why says of it: %+v, %v", s, err)
		}
		if beside := filepath.Join(home, "beside/x"); hide != "" && view != "dynamic" {
			j.sh("cat " + beside)
		}
		if view == "folder within" {
			j.sh("cat " + filepath.Join(home, "work/x"))
		}
	})
}

// TestW1FolderIsNotHidden: a folder that is to be hidden and worked in is refused.
func TestW1FolderIsNotHidden(t *testing.T) {
	need(t)
	dir := t.TempDir()
	refusedStart(t, hypervisor.Config{UID: -1, GID: -1, Shares: []hypervisor.Share{share(dir, nil)}, Jail: hypervisor.Jail{Hide: []string{dir}}}, "is a working folder")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestW9LogsBeside: undo logs that lie beside their folders are hidden: in a working folder's parents, in the home directory, in a working folder; and
// the logs of the user that root acts for, also those that lie elsewhere, of which the state directory has notes.
func TestW9LogsBeside(t *testing.T) {
	home := ownHome(t)
	for _, name := range []string{"deep/.other.sandbox-undo/x", "deep/in/work/f", "deep/in/.work2.sandbox-undo/x", ".a.sandbox-undo/x", "deep/in/work/.sub.sandbox-undo/x", ".local/state/sandbox/undo/x"} {
		put(t, home, name, "SECRET")
	}
	for _, log := range []string{"else/sandbox-undo", "deep/in/work/far/down/sandbox-undo"} {
		for _, name := range []string{"version", "lock", "wal", "steps"} {
			put(t, home, filepath.Join(log, name), "SECRET")
		}
		put(t, home, ".local/state/sandbox/"+hypervisor.LogNotes+"/"+filepath.Base(filepath.Dir(log)), filepath.Join(home, log))
	}
	for _, mediated := range []bool{false, true} {
		var a answering
		j := start(t, func(c *hypervisor.Config) {
			work := filepath.Join(home, "deep/in/work")
			must(t, os.Lchown(work, os.Getuid(), -1))
			c.Shares = append(c.Shares, share(work, nil))
			c.Places = hypervisor.Places{Store: filepath.Join(t.TempDir(), "store"), Home: true}
			if mediated {
				a.mediated(t)(c)
			}
		})
		if out := j.sh("grep -rs SECRET " + home + "; true"); strings.Contains(out, "sandbox-undo") || strings.Contains(out, "state/sandbox") || !strings.Contains(out, "work/f") {
			t.Errorf("mediated %v: %s", mediated, out)
		}
	}
}

// TestW13FirstProcess: a command cannot change the limits of the first process, nor its priority or processors, which later commands inherit.
func TestW13FirstProcess(t *testing.T) {
	j := start(t, nil)
	python := systemPython(t)
	j.refused(python+` -c 'import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (1, 1))'`, "PermissionError")
	for _, call := range []string{"setpriority(os.PRIO_PROCESS, 1, 19)", "setpriority(os.PRIO_PGRP, 1, 19)", "sched_setaffinity(1, os.sched_getaffinity(0))",
		"sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))", "sched_setparam(1, os.sched_param(0))"} {
		j.refused(python+` -c 'import os; os.`+call+`'`, "PermissionError")
		j.sh(python + ` -c 'import os; os.` + strings.Replace(call, "1,", "0,", 1) + `'`)
	}
	j.refused(python+` -c 'import os; os.setpriority(os.PRIO_USER, 0, 19)'`, "PermissionError")
	j.sh(python + ` -c 'import os, resource; resource.prlimit(0, resource.RLIMIT_NOFILE, (99, 99)); resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE, (98, 98))'`)
}
