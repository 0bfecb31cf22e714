package ui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// TestConfigText: a level's file is changed only as a preview has shown it, by a request of the page, and what cannot be
// asked for reaches no program.
func TestConfigText(t *testing.T) {
	f := newFake()
	var asked []TextChange
	f.putText = func(c TextChange) (json.RawMessage, error) {
		asked = append(asked, c)
		return json.RawMessage(`{"digest":"d"}`), nil
	}
	x := newLab(t, f)
	good, folder := strings.Repeat("ab", 32), folderID("/work")
	for _, bad := range []struct {
		level string
		body  map[string]any
	}{
		{"user", map[string]any{"text": "a"}},
		{"user", map[string]any{"text": "a", "expect": "short"}},
		{"user", map[string]any{"text": "a", "expect": good, "dry_run": true}},
		{"user", map[string]any{"text": "a", "dry_run": true, "file": "/etc/passwd"}},
		{"user", map[string]any{"text": "a", "dry_run": true, "folder": "/etc"}},
		{"project", map[string]any{"text": "a", "dry_run": true}},
		{"--level=user", map[string]any{"text": "a", "dry_run": true}},
	} {
		if r := x.post("/api/config/"+bad.level, bad.body); r.status != http.StatusBadRequest && r.status != http.StatusNotFound {
			t.Errorf("%v: %+v", bad, r)
		}
	}
	if r := x.post("/api/config/user", map[string]any{"text": strings.Repeat("#", maxRequest), "dry_run": true}); r.status != http.StatusRequestEntityTooLarge && r.status != http.StatusBadRequest {
		t.Errorf("a large text: %d %.200s", r.status, r.body)
	}
	other := x.request("POST", "/api/config/user", map[string]any{"text": "a", "dry_run": true})
	other.Header.Set("Origin", "http://evil.test")
	if r := x.do(x.page, other); r.status != http.StatusForbidden {
		t.Errorf("from another page: %+v", r)
	}
	if r := x.do(http.DefaultClient, x.request("POST", "/api/config/user", map[string]any{})); r.status != http.StatusUnauthorized {
		t.Errorf("without the token: %+v", r)
	}
	if len(asked) != 0 {
		t.Fatalf("asked for %+v", asked)
	}
	if r := x.post("/api/config/user", map[string]any{"text": "a", "dry_run": true}); r.status != http.StatusOK || !strings.Contains(r.body, `"digest":"d"`) {
		t.Errorf("%+v", r)
	}
	if r := x.post("/api/config/project", map[string]any{"text": "", "folder": folder, "expect": good}); r.status != http.StatusOK {
		t.Errorf("%+v", r)
	}
	if len(asked) != 2 || asked[0] != (TextChange{"user", "", "a", ""}) || asked[1] != (TextChange{"project", "/work", "", good}) {
		t.Errorf("asked for %+v", asked)
	}
	if r := x.get("/api/config/project?folder=" + folder); r.status != http.StatusOK || !strings.Contains(r.body, `"file":"/work"`) {
		t.Errorf("%+v", r)
	}
	if r := x.get("/api/config/project"); r.status != http.StatusBadRequest {
		t.Errorf("%+v", r)
	}
	for err, code := range map[error]string{ErrStale: "changed", Refused("no"): "refused"} {
		f.putText = func(TextChange) (json.RawMessage, error) { return nil, err }
		if r := x.post("/api/config/user", map[string]any{"text": "a", "expect": good}); r.status != http.StatusConflict || r.code() != code {
			t.Errorf("%v: %+v", err, r)
		}
	}
}

// TestBuild: one image is made at a time, its progress can be seen from the beginning to the end, and it can be given up.
// What it says is bounded.
func TestBuild(t *testing.T) {
	f := newFake()
	type call struct {
		what ImageBuild
		said func(string)
		end  chan error
	}
	calls := make(chan call)
	f.build = func(ctx context.Context, b ImageBuild, said func(string)) (json.RawMessage, error) {
		c := call{b, said, make(chan error)}
		calls <- c
		select {
		case err := <-c.end:
			return json.RawMessage(`{"kernel":"6.1"}`), err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	x := newLab(t, f)
	state := func() (st BuildState) {
		t.Helper()
		if err := json.Unmarshal([]byte(x.get("/api/machine/build").body), &st); err != nil {
			t.Fatal(err)
		}
		return st
	}
	begin := func(body map[string]any) call {
		t.Helper()
		if r := x.post("/api/machine/build", body); r.status != http.StatusOK {
			t.Fatalf("%+v", r)
		}
		return actortest.Within(t, "the build's beginning", calls)
	}
	if st := state(); st.State != "none" || st.Lines == nil {
		t.Errorf("%+v", st)
	}
	if r := x.post("/api/machine/build/cancel", map[string]any{}); r.status != http.StatusConflict || r.code() != "not_running" {
		t.Errorf("%+v", r)
	}
	if r := x.post("/api/machine/build", map[string]any{"include": []string{"-o Evil"}}); r.status != http.StatusBadRequest {
		t.Errorf("%+v", r)
	}

	c := begin(map[string]any{"rootfs": true})
	if !c.what.RootFS || c.what.Force {
		t.Errorf("%+v", c.what)
	}
	for range 3 * maxSaid {
		c.said("downloading")
	}
	c.said(strings.Repeat("ä", 5*maxSaidLine))
	if st := state(); st.State != "running" || len(st.Lines) != maxSaid || len([]rune(st.Lines[maxSaid-1])) != maxSaidLine+1 {
		t.Errorf("%s, %d lines", st.State, len(st.Lines))
	}
	if r := x.post("/api/machine/build", map[string]any{}); r.status != http.StatusConflict || r.code() != "busy" {
		t.Errorf("a second one: %+v", r)
	}
	c.end <- nil
	actortest.Eventually(t, "the end", func() bool { return state().State == "done" })
	if st := state(); string(st.Result) != `{"kernel":"6.1"}` || st.Ended.IsZero() {
		t.Errorf("%+v", st)
	}

	c = begin(map[string]any{"force": true})
	c.end <- errors.New("the mirror is gone")
	actortest.Eventually(t, "the failure", func() bool { return state().State == "failed" })
	if st := state(); !strings.Contains(st.Problem, "mirror") || st.Result != nil {
		t.Errorf("%+v", st)
	}

	begin(map[string]any{})
	if r := x.post("/api/machine/build/cancel", map[string]any{}); r.status != http.StatusOK {
		t.Errorf("%+v", r)
	}
	actortest.Eventually(t, "the end of what was cancelled", func() bool { return state().State == "cancelled" })
	begin(map[string]any{}) // the server's end ends it, and nothing is left
}
