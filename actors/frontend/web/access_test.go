package web

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestAccess(t *testing.T) {
	here := Access{Loopback: true, Hosts: []string{"*.boxes.test", "named.test"}, Origins: []string{"https://page.test"}}
	public := Access{}
	known := Access{Hosts: []string{"sandbox.example.org"}}
	for _, c := range []struct {
		name   string
		a      Access
		host   string
		header map[string]string
		status int
	}{
		{"localhost", here, "localhost:80", nil, 200},
		{"its address", here, "127.0.0.1:8080", nil, 200},
		{"another loopback address", here, "127.1.2.3", nil, 200},
		{"by IPv6", here, "[::1]:80", nil, 200},
		{"by IPv6 without a port", here, "[::1]", nil, 200},
		{"capitals and a dot", here, "LocalHost.:80", nil, 200},
		{"a name that leads here", here, "evil.test:80", nil, 403},
		{"a name below localhost", here, "evil.localhost", nil, 403},
		{"a name that begins so", here, "localhost.evil.test", nil, 403},
		{"a public address", here, "10.0.0.1:80", nil, 403},
		{"no name", here, "", nil, 403},
		{"an allowed name", here, "Named.test:1", nil, 200},
		{"one below it", here, "x.named.test", nil, 403},
		{"one of allowed names", here, "80-id.boxes.test", nil, 200},
		{"their parent", here, "boxes.test", nil, 403},
		{"nothing before it", here, ".boxes.test", nil, 403},
		{"any name", public, "evil.test", nil, 200},
		{"its name", known, "sandbox.example.org:443", nil, 200},
		{"not its name", known, "localhost", nil, 403},
		{"an allowed page", here, "localhost", map[string]string{"Origin": "https://page.test"}, 200},
		{"an allowed page of another site", here, "localhost", map[string]string{"Origin": "https://page.test", "Sec-Fetch-Site": "cross-site"}, 200},
		{"another page", here, "localhost", map[string]string{"Origin": "https://evil.test"}, 403},
		{"an allowed page of another port", here, "localhost", map[string]string{"Origin": "https://page.test:8443"}, 403},
		{"a page of this machine", here, "localhost", map[string]string{"Origin": "http://localhost"}, 403},
		{"a page without an origin", here, "localhost", map[string]string{"Origin": "null"}, 403},
		{"an image of a page", here, "localhost", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"typed into a browser", here, "localhost", map[string]string{"Sec-Fetch-Site": "none"}, 200},
		{"a page, where others reach it", public, "x.test", map[string]string{"Origin": "https://x.test"}, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, w := httptest.NewRequest("POST", "/", nil), httptest.NewRecorder()
			r.Host = c.host
			for k, v := range c.header {
				r.Header.Set(k, v)
			}
			c.a.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
			if w.Code != c.status {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
			if allowed := w.Header().Get("Access-Control-Allow-Origin"); (allowed != "") != (c.status == 200 && c.header["Origin"] != "") {
				t.Errorf("allowed: %q", allowed)
			}
		})
	}
	r, w := httptest.NewRequest("POST", "/", nil), httptest.NewRecorder()
	r.Header["Origin"] = []string{"https://page.test", "https://evil.test"}
	r.Host = "localhost"
	here.Handler(http.NotFoundHandler()).ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("two origins: %d", w.Code)
	}
}

// TestPreflight: an allowed page's question is answered before a key is asked for, and another page's is not.
func TestPreflight(t *testing.T) {
	a := Access{Loopback: true, Origins: []string{"https://page.test"}, Methods: []string{"POST", "DELETE"}, Headers: []string{"Authorization", "X-Y"}, Exposed: []string{"X-Z"}}
	h := a.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	ask := func(origin, method string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest("OPTIONS", "/", nil), httptest.NewRecorder()
		r.Host = "localhost"
		r.Header.Set("Origin", origin)
		if method != "" {
			r.Header.Set("Access-Control-Request-Method", method)
		}
		h.ServeHTTP(w, r)
		return w
	}
	w := ask("https://page.test", "POST")
	if g := w.Header().Get; w.Code != 204 || g("Access-Control-Allow-Origin") != "https://page.test" || g("Access-Control-Allow-Methods") != "POST, DELETE" || g("Access-Control-Allow-Headers") != "Authorization, X-Y" || g("Vary") != "Origin" ||
		g("Access-Control-Allow-Credentials") != "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := ask("https://evil.test", "POST"); w.Code != 403 || w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another page: %d %v", w.Code, w.Header())
	}
	if w := ask("https://page.test", ""); w.Code != 418 || w.Header().Get("Access-Control-Expose-Headers") != "X-Z" {
		t.Errorf("no question: %d %v", w.Code, w.Header())
	}
}

func TestCheckOrigin(t *testing.T) {
	for origin, ok := range map[string]bool{
		"https://a.test": true, "http://a.test:80": true, "": false, "*": false, "null": false, "a.test": false, "https://a.test/": false, "https://a.test/x": false, "https://u@a.test": false, "ftp://a.test": false, "https://": false, "https://a.test?x": false,
	} {
		if err := CheckOrigin(origin); (err == nil) != ok {
			t.Errorf("%q: %v", origin, err)
		}
	}
}
