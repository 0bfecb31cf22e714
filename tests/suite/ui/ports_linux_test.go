package ui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/browser"
)

// TestW3OtherPort: a server on another port of this machine, which may be another user's, gets nothing from the browser with which it could use the page, and its own page can read nothing of ours. A
// second tab of ours needs no token in its address.
func TestW3OtherPort(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"notes.txt": "first\n"})
	p.live()
	s := p.serve()
	_, token, _ := strings.Cut(s.url, "#token=")
	var mu sync.Mutex
	var asked []http.Header
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Header.Clone())
		mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>other</title><main>other</main>")
	}))
	t.Cleanup(other.Close)
	chromium := browser.Start(t)
	tab := open(chromium, t, s.url)
	tab.text("main", "1 session")
	second := open(chromium, t, s.base()+"#/decisions")
	second.text("main", "Decided")
	if eval[string](second, `document.cookie`) != "" || eval[string](second, `location.href + document.referrer`) != s.base()+"#/decisions" {
		t.Error("the page has a cookie, or a token in its address")
	}

	theirs := open(chromium, t, other.URL)
	theirs.expect(".*")
	theirs.wait(`document.title === "other"`)
	got := eval[string](theirs, `(async () => {
		const kept = JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage), document.cookie]);
		const answers = [];
		for (const credentials of ["include", "same-origin"]) {
			for (const mode of ["cors", "no-cors"]) {
				try {
					const r = await fetch("`+s.base()+`api/overview", { credentials, mode });
					answers.push(r.status + await r.text());
				} catch (err) {
					answers.push("no");
				}
			}
		}
		return kept + answers.join();
	})()`)
	if strings.Contains(got, token) || strings.Contains(got, "folders") {
		t.Errorf("the other port's page reads %s", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) == 0 {
		t.Fatal("the other server was not asked")
	}
	for _, h := range asked {
		if h.Get("Cookie") != "" || strings.Contains(fmt.Sprint(h), token) {
			t.Errorf("the browser sends the other port %v", h)
		}
	}
}
