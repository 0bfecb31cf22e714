package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/rights"
)

func places(t *testing.T) Places {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return Places{
		Organisation: filepath.Join(dir, "etc", "policy.json"), User: filepath.Join(dir, "config", "policy.json"),
		State: filepath.Join(dir, "state"), Project: "/p", Home: "/home/u",
	}
}

func at() time.Time { return noon }

// What is remembered is there for the next book, in its scope.
func TestRemember(t *testing.T) {
	p := places(t)
	b := NewBook(p, at)
	for _, s := range []Scope{User, Project, Session} {
		if _, err := b.Remember(Rule{Operation: Read, Subject: "/" + string(s) + "/**", Action: Allow, Scope: s, By: "cli"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Remember(Rule{Operation: Read, Subject: "/o", Action: Allow, Scope: Organisation}); err == nil {
		t.Error("a rule of the organisation's was remembered")
	}
	other := p
	other.Project = "/q"
	for name, c := range map[string]struct {
		b    *Book
		want string
	}{"same": {b, "user project session"}, "next": {NewBook(p, at), "user project"}, "elsewhere": {NewBook(other, at), "user"}} {
		var got []string
		for _, s := range []Scope{User, Project, Session} {
			if c.b.Decide(Query{Operation: Read, Path: "/" + string(s) + "/x"}).Action == Allow {
				got = append(got, string(s))
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	// Another process changes its mind: the same rule, the other way round.
	if _, err := NewBook(p, at).Remember(Rule{Operation: Read, Subject: "/user/**", Action: Deny, Scope: User}); err != nil {
		t.Fatal(err)
	}
	if d := b.Decide(Query{Operation: Read, Path: "/user/x"}); d.Action != Deny || len(d.Beside) != 0 {
		t.Errorf("%+v", d)
	}
	if _, err := hostfs.RegularTrusted(p.User, MaxBytes); err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(p.User); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	if err := p.File(User).Remove(noon, "r-none"); !errors.Is(err, ErrNoRule) {
		t.Error(err)
	}
}

// A file that cannot be trusted widens nothing, is told of, and is not overwritten.
func TestFilesThatAreNotTrusted(t *testing.T) {
	good := `{"version":1,"rules":[{"operation":"read","subject":"/a","action":"allow"}]}`
	for name, spoil := range map[string]func(path string) error{
		"symlink": func(path string) error {
			return errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path))
		},
		"everybody writes":            rights.EverybodyWrites,
		"everybody changes directory": func(path string) error { return rights.EverybodyWrites(filepath.Dir(path)) },
		"not regular":                 func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"100 MB":                      func(path string) error { return os.Truncate(path, 100<<20) },
		"broken":                      func(path string) error { return os.WriteFile(path, []byte(good[:40]), 0o600) },
		"empty":                       func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"unknown key":                 func(path string) error { return os.WriteFile(path, []byte(`{"version":1,"rule":[]}`), 0o600) },
		"two values":                  func(path string) error { return os.WriteFile(path, []byte(good+"{}"), 0o600) },
		"version 2":                   func(path string) error { return os.WriteFile(path, []byte(`{"version":2,"rules":[]}`), 0o600) },
		"bad rule": func(path string) error {
			return os.WriteFile(path, []byte(strings.Replace(good, "/a", "a", 1)), 0o600)
		},
		"another project's": func(path string) error {
			return os.WriteFile(path, []byte(strings.Replace(good, "{", `{"project":"/x",`, 1)), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := places(t)
			for _, path := range []string{p.User, p.Organisation} {
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(good), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			b, q := NewBook(p, at), Query{Operation: Read, Path: "/a"}
			if d := b.Decide(q); d.Action != Allow {
				t.Fatalf("%+v", d)
			}
			if err := spoil(p.User); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Lstat(p.User)
			b = NewBook(p, at)
			if d := b.Decide(q); d.Action != Ask || !strings.Contains(d.Why, "policy") {
				t.Errorf("%+v", d)
			}
			if _, err := b.Remember(Rule{Operation: Read, Subject: "/b", Action: Allow, Scope: User}); err == nil {
				t.Error("it was written to")
			} else if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %v", err)
			}
			if after, err := os.Lstat(p.User); err != nil || !unchanged(before, after) {
				t.Errorf("the file is another one: %v, %v", after, err)
			}
			if err := spoil(p.Organisation); err != nil {
				t.Fatal(err)
			}
			if d := NewBook(p, at).Decide(q); d.Action != Deny {
				t.Errorf("with the organisation's: %+v", d)
			}
		})
	}
}

// Several writers lose nothing.
func TestWritersAtTheSameTime(t *testing.T) {
	p := places(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 5 {
				r := Rule{Operation: Read, Subject: fmt.Sprintf("/%d/%d", i, j), Action: Allow, Scope: Project}
				if _, err := NewBook(p, at).Remember(r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if rules, err := p.File(Project).Load(); err != nil || len(rules) != 40 {
		t.Errorf("%d rules, %v", len(rules), err)
	}
	left, err := filepath.Glob(filepath.Join(p.State, "policy", ".policy-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// What is exported can be imported into another scope.
func TestExportImport(t *testing.T) {
	p := places(t)
	r := rule(t, User, "deny read ~/.ssh/**")
	r.Until, r.Why = noon.Add(time.Hour), "keys"
	var out bytes.Buffer
	if err := Export(&out, []Rule{r}); err != nil {
		t.Fatal(err)
	}
	rules, err := p.File(Project).Import(out.Bytes())
	if err != nil || len(rules) != 1 || rules[0].Scope != Project || rules[0].String() != r.String() || !rules[0].Until.Equal(r.Until) || rules[0].Why != "keys" {
		t.Errorf("%+v, %v", rules, err)
	}
}

// A file's bytes are an error, or rules that can be written and read again.
func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"version":1,"rules":[{"operation":"read","subject":"/a/**","action":"allow","until":"2026-01-02T03:04:05Z"}]}`))
	f.Add([]byte(`{"version":1,"rules":[{"operation":"connect","subject":"tcp/*.a.example:1-2","action":"ask","by":"x"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := File{Scope: User, Home: "/home/u"}
		rules, err := file.parse(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(document{Version: version, Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		back, err := file.parse(again)
		if err != nil || len(back) != len(rules) {
			t.Fatalf("%s: %d rules, then %d, %v", text, len(rules), len(back), err)
		}
		_, _ = Decide(rules, Query{Operation: Read, Path: "/a/b"}, noon)
	})
}
