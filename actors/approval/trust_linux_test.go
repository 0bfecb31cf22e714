package approval

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A project's file that others could have written counts for nothing, until a person accepts
// just what was shown, or puts back what was there. The other scopes' rules hold meanwhile.
func TestProjectFileThatIsNotTrusted(t *testing.T) {
	evil := `{"version":1,"project":"/p","rules":[{"operation":"read","subject":"/secret","action":"allow"}]}`
	for name, c := range map[string]struct {
		spoil func(path string) error
		found int // rules that can be accepted; -1: it cannot be understood
	}{
		"edited": {func(path string) error { return os.WriteFile(path, []byte(evil), 0o600) }, 1},
		"symlink": {func(path string) error {
			return errors.Join(os.WriteFile(path+".real", []byte(evil), 0o600), os.Remove(path), os.Symlink(path+".real", path))
		}, 1},
		"world-writable": {func(path string) error { return os.Chmod(path, 0o666) }, 1},
		"directory":      {func(path string) error { return os.Chmod(filepath.Dir(path), 0o777) }, 1},
		"removed":        {os.Remove, 0},
		"broken":         {func(path string) error { return os.WriteFile(path, []byte(evil[:50]), 0o600) }, -1},
		"contradictory": {func(path string) error {
			return os.WriteFile(path, []byte(strings.Replace(evil, "]}", `,{"operation":"read","subject":"/secret","action":"deny"}]}`, 1)), 0o600)
		}, 2},
		"100 MB": {func(path string) error { return os.Truncate(path, 100<<20) }, -1},
		"another's": {func(path string) error {
			return os.WriteFile(path, []byte(strings.Replace(evil, "/p", "/q", 1)), 0o600)
		}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			p := places(t)
			b, f := NewBook(p, at), p.File(Project)
			for _, r := range []Rule{{Subject: "/opt/**", Scope: User}, {Subject: "/here", Scope: Project}} {
				r.Operation, r.Action = Read, Allow
				if _, err := b.Remember(r); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.spoil(f.Path); err != nil {
				t.Fatal(err)
			}
			decide := func(path string) Action { return b.Decide(Query{Operation: Read, Path: path}).Action }
			var untrusted *UntrustedError
			if rules, err := b.Rules(); len(rules) != 1 || err != nil || !errors.As(b.Untrusted(), &untrusted) || !strings.Contains(untrusted.Error(), "sandbox policy trust") {
				t.Errorf("%v, %v, %v", rules, err, b.Untrusted())
			}
			if a, o, s := decide("/here"), decide("/opt/x"), decide("/secret"); a != None || o != Allow || s != None {
				t.Errorf("here %q, /opt %q, /secret %q", a, o, s)
			}
			if _, err := b.Remember(Rule{Operation: Read, Subject: "/b", Action: Allow, Scope: Project}); !errors.As(err, &untrusted) {
				t.Errorf("it was written to: %v", err)
			}
			prop := f.Proposal()
			if (prop.Err != nil) != (c.found < 0) || prop.Err == nil && len(prop.Found) != c.found || len(prop.Accepted) != map[bool]int{true: 1}[name != "directory"] {
				t.Errorf("%+v", prop)
			}
			if err := f.Accept("another", false); err == nil {
				t.Error("accepted without being looked at")
			}
			if c.found >= 0 {
				if err := f.Accept(prop.ID, false); err != nil {
					t.Fatal(err)
				}
				if rules, err := f.Load(); err != nil || len(rules) != c.found {
					t.Errorf("accepted: %v, %v", rules, err)
				}
				if err := c.spoil(f.Path); err != nil {
					t.Fatal(err)
				}
			} else if err := f.Accept("", true); err != nil {
				t.Fatal(err)
			} else if decide("/here") != Allow || b.Untrusted() != nil {
				t.Errorf("put back: %v", b.Untrusted())
			}
		})
	}
}

// A change that is cut short between its two files leaves the old rules trusted.
func TestProjectFileCutShort(t *testing.T) {
	p := places(t)
	f := p.File(Project)
	if err := f.Put(noon, rule(t, Project, "allow read /a")); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Put(noon, rule(t, Project, "allow read /b")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.Path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	if rules, err := f.Load(); err != nil || len(rules) != 1 {
		t.Errorf("%v, %v", rules, err)
	}
}

// On a full disk nothing changes, and what was there is trusted.
func TestFullDisk(t *testing.T) {
	p := places(t)
	f := p.File(Project)
	if err := f.Put(noon, rule(t, Project, "allow read /a")); err != nil {
		t.Fatal(err)
	}
	limitFiles(t, 64) // bytes: a write beyond fails
	if err := f.Put(noon, rule(t, Project, "allow read /b")); err == nil {
		t.Error("written beyond the limit")
	}
	if rules, err := f.Load(); err != nil || len(rules) != 1 {
		t.Errorf("%v, %v", rules, err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(f.Path), ".policy-*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
