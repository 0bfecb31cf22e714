package approval

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Answers of an older version become rules once; what cannot is told of and stays.
func TestConvert(t *testing.T) {
	p := places(t)
	dir := filepath.Join(p.State, "answers")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("1", `{"kind":"network","subject":"lookup a.example","allow":true,"at":"2026-01-02T03:04:05Z","by":"cli"}`)
	put("2", `{"kind":"network","subject":"tcp 198.51.100.1:80","allow":false,"project":"/q","at":"2026-01-02T03:04:05Z"}`)
	put("3", `{"kind":"network","subject":"icmp 198.51.100.1:0","allow":true,"project":"/p","at":"2026-01-02T03:04:05Z"}`)
	put("broken", `{"kind":"network"`)
	put("strange", `{"kind":"delete_threshold","subject":"x y","allow":true,"at":"2026-01-02T03:04:05Z"}`)
	n, err := p.Convert(noon)
	if n != 3 || err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "broken.json")) || !strings.Contains(err.Error(), "strange.json") {
		t.Fatalf("%d, %v", n, err)
	}
	at := func(project, host string) Decision {
		q := p
		q.Project = project
		return NewBook(q, at).Decide(Query{Operation: Connect, Host: host})
	}
	if d := at("/q", "a.example"); d.Action != Allow || d.Rule.Answer != "network" || d.Rule.By != "cli" || d.Scope != User {
		t.Errorf("%+v", d)
	}
	if here, there := at("/q", "tcp/198.51.100.1:80"), at("/p", "tcp/198.51.100.1:80"); here.Action != Deny || there.Action != None {
		t.Errorf("%+v, %+v", here, there)
	}
	if d := at("/p", "icmp/198.51.100.1"); d.Action != Allow {
		t.Errorf("%+v", d)
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "broken.json")), os.Remove(filepath.Join(dir, "strange.json"))); err != nil {
		t.Fatal(err)
	}
	if n, err := p.Convert(noon); n != 0 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}
