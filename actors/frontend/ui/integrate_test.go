package ui

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/control"
)

// TestIntegrate: files are changed only as a preview has shown it, by a request of the page, and what cannot be asked for
// reaches no program.
func TestIntegrate(t *testing.T) {
	f := newFake()
	var asked []Integration
	f.integrate = func(i Integration) (Integrated, error) {
		asked = append(asked, i)
		return Integrated{Result: json.RawMessage(`{"digest":"d"}`), Note: "<b>note"}, nil
	}
	x := newLab(t, f)
	good := strings.Repeat("ab", 32)
	for _, bad := range []struct {
		client string
		body   map[string]any
	}{
		{"codex", map[string]any{}},
		{"codex", map[string]any{"action": "install", "what": "mcp"}},
		{"codex", map[string]any{"action": "install", "what": "mcp", "expect": "short"}},
		{"codex", map[string]any{"action": "install", "what": "mcp", "expect": good, "dry_run": true}},
		{"codex", map[string]any{"action": "purge", "what": "mcp", "dry_run": true}},
		{"codex", map[string]any{"action": "install", "what": "force", "dry_run": true}},
		{"codex", map[string]any{"action": "install", "what": "mcp", "dry_run": true, "force": true}},
		{"--force", map[string]any{"action": "install", "what": "mcp", "dry_run": true}},
		{"a%20b", map[string]any{"action": "install", "what": "mcp", "dry_run": true}},
		{"%0a", map[string]any{"action": "install", "what": "mcp", "dry_run": true}},
	} {
		if r := x.post("/api/clients/"+bad.client, bad.body); r.status != http.StatusBadRequest && r.status != http.StatusNotFound {
			t.Errorf("%v: %+v", bad, r)
		}
	}
	form := x.request("POST", "/api/clients/codex", map[string]any{"action": "install", "what": "mcp", "dry_run": true})
	form.Header.Del("X-Sandbox-UI")
	if r := x.do(x.page, form); r.status != http.StatusForbidden {
		t.Errorf("without the header: %+v", r)
	}
	other := x.request("POST", "/api/clients/codex", map[string]any{"action": "install", "what": "mcp", "dry_run": true})
	other.Header.Set("Origin", "http://evil.test")
	if r := x.do(x.page, other); r.status != http.StatusForbidden {
		t.Errorf("from another page: %+v", r)
	}
	if r := x.do(http.DefaultClient, x.request("POST", "/api/clients/codex", map[string]any{})); r.status != http.StatusUnauthorized {
		t.Errorf("without the token: %+v", r)
	}
	if len(asked) != 0 {
		t.Fatalf("asked for %+v", asked)
	}
	if r := x.post("/api/clients/codex", map[string]any{"action": "uninstall", "what": "both", "dry_run": true}); r.status != http.StatusOK || !strings.Contains(r.body, `"digest":"d"`) || strings.Contains(r.body, "<b>") {
		t.Errorf("%+v", r)
	}
	if r := x.post("/api/clients/codex", map[string]any{"action": "install", "what": "mcp", "expect": good}); r.status != http.StatusOK {
		t.Errorf("%+v", r)
	}
	if len(asked) != 2 || asked[0] != (Integration{"codex", true, "both", ""}) || asked[1] != (Integration{"codex", false, "mcp", good}) {
		t.Errorf("asked for %+v", asked)
	}
	for err, code := range map[error]string{ErrStale: "changed", Refused("no"): "refused"} {
		f.integrate = func(Integration) (Integrated, error) { return Integrated{}, err }
		if r := x.post("/api/clients/codex", map[string]any{"action": "install", "what": "mcp", "expect": good}); r.status != http.StatusConflict || r.code() != code {
			t.Errorf("%v: %+v", err, r)
		}
	}
}

// TestNetwork: the page gets what the session tells, or that it tells nothing.
func TestNetwork(t *testing.T) {
	f := newFake()
	f.network = func() (api.NetworkStatus, error) {
		return api.NetworkStatus{Mode: "ask", Flows: []api.NetworkFlow{{ID: 1, Host: "<script>"}}}, nil
	}
	x := newLab(t, f)
	if r := x.get("/api/sessions/s1/network"); r.status != http.StatusOK || !strings.Contains(r.body, `"mode":"ask"`) || strings.Contains(r.body, "<script>") {
		t.Errorf("%+v", r)
	}
	if r := x.get("/api/sessions/gone/network"); r.status != http.StatusNotFound {
		t.Errorf("%+v", r)
	}
	f.network = func() (api.NetworkStatus, error) {
		return api.NetworkStatus{}, &control.Error{Code: control.CodeUnknownMethod, Message: "unknown"}
	}
	if r := x.get("/api/sessions/s1/network"); r.status != http.StatusNotImplemented || r.code() != "unsupported" {
		t.Errorf("of an older version: %+v", r)
	}
	f.network = func() (api.NetworkStatus, error) { return api.NetworkStatus{}, errors.New("no") }
	if r := x.get("/api/sessions/s1/network"); r.status != http.StatusInternalServerError {
		t.Errorf("%+v", r)
	}
}
