package ui

import (
	"context"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What does not come from the page gets nothing, and changes nothing.
func TestOnlyThePage(t *testing.T) {
	x := newLab(t, newFake())
	undo := "/api/folders/" + folderID("/work") + "/undo"
	expect := map[string]any{"count": 1, "expect": []int{3}}
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		client *http.Client
		status int
		code   string
	}{
		{"no token", nil, &http.Client{}, http.StatusUnauthorized, "signed_out"},
		{"another's token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer guessed") }, &http.Client{}, http.StatusUnauthorized, "signed_out"},
		{"the token without a word", func(r *http.Request) { r.Header.Set("Authorization", x.s.token) }, &http.Client{}, http.StatusUnauthorized, "signed_out"},
		{"the token in the address", func(r *http.Request) { r.URL.RawQuery = "token=" + x.s.token }, &http.Client{}, http.StatusUnauthorized, "signed_out"},
		{"a name that leads here", func(r *http.Request) { r.Host = "evil.test:80" }, x.page, http.StatusForbidden, "wrong_host"},
		{"another port's name", func(r *http.Request) { r.Host = "127.0.0.1:1" }, x.page, http.StatusForbidden, "wrong_host"},
		{"another origin", func(r *http.Request) { r.Header.Set("Origin", "http://evil.test") }, x.page, http.StatusForbidden, "wrong_origin"},
		{"no origin", func(r *http.Request) { r.Header.Set("Origin", "null") }, x.page, http.StatusForbidden, "wrong_origin"},
		{"another site", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, x.page, http.StatusForbidden, "wrong_origin"},
		{"another port's page", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, x.page, http.StatusForbidden, "wrong_origin"},
		{"a form", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, x.page, http.StatusForbidden, "wrong_request"},
		{"no header of ours", func(r *http.Request) { r.Header.Del("X-Sandbox-UI") }, x.page, http.StatusForbidden, "wrong_request"},
		{"a get", func(r *http.Request) { r.Method = "GET" }, x.page, http.StatusNotFound, "not_found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := x.request("POST", undo, expect)
			if c.change != nil {
				c.change(r)
			}
			if c.client.Transport == nil && c.client != x.page {
				c.client.Transport = &http.Transport{DisableKeepAlives: true}
			}
			if a := x.do(c.client, r); a.status != c.status || a.code() != c.code {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	if x.f.undone != 0 {
		t.Error("something was undone")
	}
	if a := x.post(undo, expect); a.status != http.StatusOK || x.f.undone != 1 {
		t.Errorf("the page itself: %d %s", a.status, a.body)
	}
}

// TestW3EachRequest: each request that there is, and any that there is not, needs the token in its header. What a browser would send by itself, to whatever port asks
// for it, is not enough, and nothing that is answered sets such a thing.
func TestW3EachRequest(t *testing.T) {
	x := newLab(t, newFake())
	bare := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	port := x.base[strings.LastIndex(x.base, ":")+1:]
	part := regexp.MustCompile(`\{\w+\}`)
	patterns := append(slices.Clone(x.s.patterns), "GET /api/none/such", "POST /api/login", "PUT /api/overview", "GET //api/overview", "GET /x/../api/overview", "GET /API/overview/", "POST /")
	for _, pattern := range patterns {
		method, path, _ := strings.Cut(part.ReplaceAllString(pattern, "1"), " ")
		for name, set := range map[string]func(http.Header){
			"nothing": func(http.Header) {},
			"cookies": func(h http.Header) { h.Set("Cookie", "sandbox_ui_"+port+"="+x.s.token+"; token="+x.s.token) },
			"guessed": func(h http.Header) { h.Set("Authorization", "Bearer "+strings.Repeat("A", len(x.s.token))) },
			"empty":   func(h http.Header) { h.Set("Authorization", "Bearer ") },
			"a login": func(h http.Header) { h.Set("Authorization", "Basic "+x.s.token) },
		} {
			r := x.request(method, path, map[string]any{"token": x.s.token})
			set(r.Header)
			a := x.do(bare, r)
			open := pattern == static || path == "/API/overview/"
			if refused := a.status == http.StatusUnauthorized; refused == open && a.status != http.StatusMethodNotAllowed || a.header.Get("Set-Cookie") != "" {
				t.Errorf("%s with %s: %d %s", pattern, name, a.status, a.body)
			}
		}
	}
	if len(x.s.patterns) < 30 {
		t.Errorf("only %d requests are known", len(x.s.patterns))
	}
	if a := x.get("/api/overview"); a.status != http.StatusOK {
		t.Errorf("the page itself: %d %s", a.status, a.body)
	}
}

// TestHeaders: whatever is answered, a browser may not run, frame or guess it.
func TestHeaders(t *testing.T) {
	x := newLab(t, newFake())
	for _, path := range []string{"/", "/api/overview", "/none", "/../server.go", "/%2e%2e/server.go", "/page/../doc.go", "/doc.go", "/embed.go", "/.", "//"} {
		a := x.get(path)
		if csp := a.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") ||
			a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, a.header)
		}
		if strings.Contains(a.body, "package ui") || strings.HasPrefix(a.body, "package") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
}

func TestOnlyLoopback(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := New(Options{Sources: travels{newFake()}}).Serve(context.Background(), l); err == nil {
		t.Error("a server for everybody")
	}
}
