package answers

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestStore(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "a", "b")}
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Fatalf("no directory: %v, %v", list, err)
	}
	find := func(project string, allow, ok bool) {
		t.Helper()
		a, found, err := s.Find("network", "lookup x.test", project)
		if err != nil || found != ok || a.Allow != allow {
			t.Errorf("in %q: %+v, %t, %v", project, a, found, err)
		}
	}
	find("/p", false, false)
	yes := Answer{Kind: "network", Subject: "lookup x.test", Allow: true, By: "cli"}
	no := yes
	no.Allow, no.Project = false, "/p"
	for _, a := range []Answer{yes, no} {
		if err := s.Keep(a); err != nil {
			t.Fatal(err)
		}
	}
	find("/p", false, true) // the project's own comes first
	find("/q", true, true)
	no.Allow = true
	if err := s.Keep(no); err != nil { // instead of the one before
		t.Fatal(err)
	}
	find("/p", true, true)
	if list, err := s.List(); err != nil || len(list) != 2 || list[0].Scope() != User || list[1].Scope() != Project {
		t.Errorf("%+v, %v", list, err)
	}
	if st, err := os.Stat(filepath.Join(s.Dir, yes.ID()+suffix)); err != nil || st.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v: others may look", st, err)
	}
	if err := errors.Join(s.Remove(yes.ID()), s.Remove(no.ID())); err != nil {
		t.Error(err)
	}
	find("/p", false, false)
	if err := s.Remove(yes.ID()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed twice: %v", err)
	}
	if err := s.Remove("../../etc/pas"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a path for an id: %v", err)
	}
}

// A file that is broken, somebody else's answer under this name, or no file at all answers nothing.
func TestBrokenFile(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	want := Answer{Kind: "network", Subject: "tcp 198.51.100.1:80", Allow: true}
	path := filepath.Join(s.Dir, want.ID()+suffix)
	for _, text := range []string{"", "{", `{"kind":"network","subject":"tcp 198.51.100.1:80","allow":true,"more":1}`, string(make([]byte, maxBytes+1))} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := s.Find(want.Kind, want.Subject, ""); ok || err == nil {
			t.Errorf("%.20q: %t, %v", text, ok, err)
		}
		if list, err := s.List(); len(list) != 0 || err == nil {
			t.Errorf("%.20q: %v, %v", text, list, err)
		}
	}
	if err := os.WriteFile(path, []byte(`{"kind":"network","subject":"another","allow":true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Find(want.Kind, want.Subject, ""); ok || err != nil {
		t.Errorf("another's answer: %t, %v", ok, err)
	}
	if err := errors.Join(os.Remove(path), os.Symlink("elsewhere", path)); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Find(want.Kind, want.Subject, ""); ok || err == nil {
		t.Errorf("a symlink: %t, %v", ok, err)
	}
}

func TestParseScope(t *testing.T) {
	for text, want := range map[string]Scope{"": Session, "once": Once, "project": Project, "user": User} {
		if s, err := ParseScope(text); err != nil || s != want {
			t.Errorf("%q: %q, %v", text, s, err)
		}
	}
	if _, err := ParseScope("for ever"); err == nil {
		t.Error("an unknown scope")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"kind":"network","subject":"lookup x","allow":true,"project":"/p","at":"2026-01-02T03:04:05Z"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if a, err := parse(text); err == nil && (a.Kind == "" || a.Subject == "" || len(a.ID()) != 16) {
			t.Errorf("%+v", a)
		}
	})
}
