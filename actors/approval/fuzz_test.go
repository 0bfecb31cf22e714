package approval

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What is protected is a part of the path, and so is everything in it; a path beside it is not.
func FuzzEntry(f *testing.F) {
	for _, path := range []string{".git/config", "a/.git/modules/x/y/hooks/z", ".vscode/tasks.json", "a/.envrc", ".git/refs/heads/hooks", ".git/hooks/a.sample"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		names := strings.Split(path, "/")
		from, to, ok := Entry(names)
		if !ok {
			return
		}
		if from < 0 || from >= to || to > len(names) {
			t.Fatalf("%q: from %d to %d", path, from, to)
		}
		below := append(slices.Clone(names[:to]), "x")
		if names[to-1] != gitDir {
			if f2, t2, ok := Entry(below); !ok || f2 != from || t2 != to {
				t.Errorf("%q is protected, and %q is not: %d to %d", path, below, f2, t2)
			}
		}
	})
}

// A file that says what was accepted is an error, or accepts nothing but what it names.
func FuzzAccepted(f *testing.F) {
	f.Add([]byte(`{"version":1,"digests":["x",""],"rules":[{"operation":"read","subject":"/a","action":"deny"}]}`), []byte(`{"version":1,"project":"/p","rules":[]}`))
	f.Fuzz(func(t *testing.T, accepts, text []byte) {
		p := Places{State: t.TempDir(), Project: "/p"}
		file := p.File(Project)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file.Path), 0o700), os.WriteFile(file.acceptedPath(), accepts, 0o600), os.WriteFile(file.Path, text, 0o600)); err != nil {
			t.Fatal(err)
		}
		rules, err := file.Load()
		var untrusted *UntrustedError
		if err != nil && (!errors.As(err, &untrusted) || len(rules) != 0) {
			t.Errorf("%d rules, %v", len(rules), err)
		}
		if err == nil && !strings.Contains(string(accepts), digest(text)) {
			var a accepted
			if json.Unmarshal(accepts, &a) != nil || !slices.Contains(a.Digests, digest(text)) {
				t.Errorf("accepted: %s", text)
			}
		}
		if prop := file.Proposal(); prop.Err == nil && prop.ID == "" {
			t.Error("a proposal that cannot be named")
		}
	})
}

// An answer of an older version is an error, or a rule that decides the same.
func FuzzOldAnswer(f *testing.F) {
	f.Add("network", "lookup a.example", true, "/p")
	f.Add("network", "tcp 198.51.100.1:80", false, "")
	f.Fuzz(func(t *testing.T, kind, subject string, allow bool, project string) {
		r, err := oldAnswer{Kind: kind, Subject: subject, Allow: allow, Project: project}.rule()
		if err != nil {
			return
		}
		if r, err = r.Checked(""); err != nil {
			return
		}
		d, err := Decide([]Rule{r}, Query{Operation: Connect, Host: r.Subject}, noon)
		if err != nil || (d.Action == Allow) != allow || (d.Scope == Project) != (project != "") {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
