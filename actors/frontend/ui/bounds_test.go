package ui

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// Two tabs that press undo at once undo what they have shown once.
func TestUndoPressedTwice(t *testing.T) {
	x := newLab(t, newFake())
	undo := "/api/folders/" + folderID("/work") + "/undo"
	var shown struct{ Steps []undolog.Entry }
	if a := x.post(undo, map[string]any{"count": 1, "dry_run": true}); a.status != 200 || json.Unmarshal([]byte(a.body), &shown) != nil || len(shown.Steps) != 1 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	var both sync.WaitGroup
	answers := make([]answer, 2)
	for i := range answers {
		both.Go(func() {
			answers[i] = x.post(undo, map[string]any{"count": 1, "expect": []undolog.StepID{shown.Steps[0].StepID}})
		})
	}
	both.Wait()
	slices.SortFunc(answers, func(a, b answer) int { return a.status - b.status })
	if answers[0].status != 200 || answers[1].status != http.StatusConflict || answers[1].code() != "changed" || x.f.undone != 1 {
		t.Errorf("%+v, undone %d times", answers, x.f.undone)
	}
	if a := x.post(undo, map[string]any{"count": 1}); a.status != http.StatusBadRequest || x.f.undone != 1 {
		t.Errorf("without names: %d %s", a.status, a.body)
	}
}

// The first of two answers to one question stands; the other says whose.
func TestDecidedTwice(t *testing.T) {
	f := newFake()
	f.pending = []api.Pending{{ID: "sg_001", Kind: "delete_threshold", Directory: "/work", SamplePaths: []string{"<img src=x onerror=alert(1)>\u202e\x1b[31m"}}}
	x := newLab(t, f)
	var list struct{ Pending []pending }
	if a := x.get("/api/decisions"); json.Unmarshal([]byte(a.body), &list) != nil || len(list.Pending) != 1 || list.Pending[0].Session != "s1" ||
		strings.ContainsAny(a.body, "<>\x1b") || a.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, wrong := range []string{"x", "-1h", "0s", "8"} {
		if a := x.post("/api/sessions/s1/decisions/sg_001", map[string]any{"allow": true, "for": wrong}); a.status != http.StatusBadRequest {
			t.Errorf("%q: %d %s", wrong, a.status, a.body)
		}
	}
	if a := x.post("/api/sessions/s1/decisions/sg_001", map[string]any{"allow": true}); a.status != http.StatusNoContent {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := x.post("/api/sessions/s1/decisions/sg_001", map[string]any{"allow": false}); a.status != http.StatusConflict || a.code() != "already_decided" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := x.post("/api/sessions/gone/decisions/sg_001", map[string]any{"allow": true}); a.status != http.StatusNotFound || a.code() != "session_ended" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// Requests that nobody sent from the page are refused with what is wrong.
func TestBadRequests(t *testing.T) {
	x := newLab(t, newFake())
	f := "/api/folders/" + folderID("/work")
	for path, code := range map[string]string{
		"/api/folders/none/history": "unknown_directory", f + "/history?limit=x": "invalid_field", f + "/history?before=-1": "invalid_field",
		f + "/steps/99": "no_such_step", f + "/steps/0": "invalid_field", f + "/steps/x/diff": "invalid_field", f + "/files": "invalid_field",
		"/api/sessions/none/tree": "session_ended", "/api/none": "not_found", "/api/clients": "unsupported",
	} {
		if a := x.get(path); a.code() != code || a.status < 400 {
			t.Errorf("%s: %d %s, want %s", path, a.status, a.body, code)
		}
	}
	for _, body := range []string{"", "{", "[]", `{"count":1}{}`, `{"other":1}`, `{"count":"x"}`, strings.Repeat(" ", maxRequest+1)} {
		r := x.request("POST", f+"/undo", nil)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		if a := x.do(x.page, r); a.status != http.StatusBadRequest && a.status != http.StatusRequestEntityTooLarge {
			t.Errorf("%.20q: %d %s", body, a.status, a.body)
		}
	}
}

// A diff of any size leaves in pieces, up to the limit; then nobody goes on making it.
func TestLargeDiff(t *testing.T) {
	f := newFake()
	line := []byte(strings.Repeat("+", 1023) + "\n")
	written := 0
	stopped := errors.New("stopped")
	f.diff = func(w io.Writer) error {
		for range 500 << 10 {
			if _, err := w.Write(line); err != nil {
				return stopped
			}
			written += len(line)
			if written > 4*maxDiff {
				return stopped
			}
		}
		return nil
	}
	x := newLab(t, f)
	a := x.get("/api/folders/" + folderID("/work") + "/steps/1/diff")
	if a.status != 200 || len(a.body) < maxDiff || len(a.body) > maxDiff+1000 || !strings.HasSuffix(a.body, "The rest is not shown\n") {
		t.Errorf("%d, %d bytes, %q", a.status, len(a.body), a.body[max(0, len(a.body)-40):])
	}
	f.diff = func(io.Writer) error { return undolog.ErrDamaged }
	if a := x.get("/api/folders/" + folderID("/work") + "/steps/1/diff"); a.status != http.StatusInternalServerError || a.code() != "damaged" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestDiffOfOnePath: a path's part is cut out however the diff comes in pieces.
func TestDiffOfOnePath(t *testing.T) {
	parts := map[string]string{
		"a":          "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+diff --git a/b b/b\n",
		"b":          "diff --git a/b b/b\nnew file mode 100644\n",
		"odd\t\"ä\n": "diff --git \"a/odd\\t\\\"\\303\\244\\n\" \"b/odd\\t\\\"\\303\\244\\n\"\n+y\n",
		"d":          "New dir d\n",
		"last":       "diff --git a/first b/last\nrename from first\nrename to last\n",
	}
	// What a file holds can look like a header only behind a + or a -.
	order := []string{"a", "b", "odd\t\"ä\n", "d", "last"}
	whole := ""
	for _, p := range order {
		whole += parts[p]
	}
	for _, size := range []int{1, 2, 7, 64, len(whole)} {
		for _, p := range order {
			r := httptest.NewRecorder()
			d := &diffWriter{w: r, path: p, left: maxDiff, full: func() { t.Error("full") }}
			for rest := []byte(whole); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if _, err := d.Write(rest[:min(size, len(rest))]); err != nil {
					t.Fatal(err)
				}
			}
			d.end()
			if got := r.Body.String(); got != parts[p] {
				t.Errorf("%q in pieces of %d: %q", p, size, got)
			}
		}
	}
}

// FuzzDiff: whatever the bytes and the pieces are, nothing is made up, and the limit holds.
func FuzzDiff(f *testing.F) {
	f.Add([]byte("diff --git a/a b/a\n+x\ndiff --git a/b b/b\n+y"), "a", 3, 10)
	f.Add([]byte("New dir a\n\n"), "a", 1, 100)
	f.Fuzz(func(t *testing.T, text []byte, path string, size, limit int) {
		size, limit = max(1, size%100), max(1, limit%10000)
		r := httptest.NewRecorder()
		full := 0
		d := &diffWriter{w: r, path: path, left: int64(limit), full: func() { full++ }}
		for rest := text; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			if n, err := d.Write(rest[:min(size, len(rest))]); err != nil || n != min(size, len(rest)) {
				t.Fatal(n, err)
			}
		}
		d.end()
		got := r.Body.Bytes()
		if d.cut != (full == 1) || full > 1 {
			t.Fatalf("cut %v, told %d times", d.cut, full)
		}
		if got = bytes.TrimSuffix(got, []byte("\n\\ The rest is not shown\n")); len(got) > limit {
			t.Fatalf("%d bytes, limit %d", len(got), limit)
		}
		if path == "" && !bytes.HasPrefix(text, got) {
			t.Fatalf("%q is not the beginning of %q", got, text)
		}
	})
}

// A page hears of what a session tells, and the session is left in peace when the last page goes.
func TestEvents(t *testing.T) {
	x := newLab(t, newFake())
	if x.f.heard != 0 {
		t.Error("somebody listens without a page")
	}
	res, err := x.page.Do(x.request("GET", "/api/events", nil))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(res.Body)
	next := func() (event string, c change) {
		for lines.Scan() {
			if e, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				event = e
			}
			if d, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				_ = json.Unmarshal([]byte(d), &c)
				return event, c
			}
		}
		t.Fatal(lines.Err())
		return
	}
	if e, _ := next(); e != "hello" {
		t.Errorf("first %q", e)
	}
	x.f.events <- api.Event{Type: api.EventStepCompleted, Directory: "/work"}
	for e, c := next(); c.What != "history"; e, c = next() {
		if e != "changed" && e != "beat" {
			t.Errorf("%q", e)
		}
	}
	res.Body.Close()
	// The session is asked again only by the next page.
	for {
		x.f.mu.Lock()
		n := x.f.heard
		x.f.mu.Unlock()
		x.s.hub.mu.Lock()
		pages := len(x.s.hub.watchers)
		x.s.hub.mu.Unlock()
		if n == 0 && pages == 0 {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("nobody left")
		}
		select { // events that nobody wants would hold the fake up
		case x.f.events <- api.Event{Type: api.EventWarning}:
		default:
		}
	}
}

// More pages than there is room for are told so; their number says nothing about the others' memory.
func TestManyPages(t *testing.T) {
	x := newLab(t, newFake())
	var open []io.Closer
	for range maxPages {
		res, err := x.page.Do(x.request("GET", "/api/events", nil))
		if err != nil || res.StatusCode != 200 {
			t.Fatal(err, res)
		}
		open = append(open, res.Body)
	}
	if a := x.get("/api/events"); a.status != http.StatusServiceUnavailable || a.code() != "too_many_pages" {
		t.Errorf("%d %s", a.status, a.body)
	}
	for i := range 10 * maxNews {
		x.s.hub.tell(change{"history", fmt.Sprint(i), ""})
	}
	x.s.hub.mu.Lock()
	for w := range x.s.hub.watchers {
		if len(w.news) > maxNews {
			t.Errorf("%d changes wait", len(w.news))
		}
	}
	x.s.hub.mu.Unlock()
	if a := x.get("/api/overview"); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	for _, c := range open {
		c.Close()
	}
}

// What a redo would bring back is listed apart from the history, whether or not a redo is possible
// at the moment.
func TestUndoneStepsAreListed(t *testing.T) {
	f := newFake()
	f.history = append([]undolog.Entry{{Seq: 5, StepID: 5, Command: "make", Undone: true}, {Seq: 4, StepID: 4, Command: "make", Undone: true}}, f.history...)
	x := newLab(t, f)
	for _, query := range []string{"", "?limit=2", "?before=2", "?q=make"} {
		var list struct{ Entries, Undone []undolog.Entry }
		a := x.get("/api/folders/" + folderID("/work") + "/history" + query)
		if a.status != 200 || json.Unmarshal([]byte(a.body), &list) != nil || len(list.Undone) != 2 || list.Undone[0].StepID != 5 {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
		if len(list.Entries) == 0 || slices.ContainsFunc(list.Entries, func(e undolog.Entry) bool { return e.Undone }) {
			t.Errorf("%s: entries: %+v", query, list.Entries)
		}
	}
}

// What is asked while the server or the session ends is refused as something to try again, and not as a conflict.
func TestAskedAtTheEnd(t *testing.T) {
	f := newFake()
	x := newLab(t, f)
	for want, err := range map[string]error{
		"cancelled":     fmt.Errorf("history: %w", context.Canceled),
		"session_ended": messages.ErrEnding,
	} {
		f.diff = func(io.Writer) error { return err }
		if a := x.get("/api/folders/" + folderID("/work") + "/steps/1/diff"); a.status != http.StatusServiceUnavailable || a.code() != want {
			t.Errorf("%v: %d %s", err, a.status, a.body)
		}
	}
}

// What a page asks of a folder without a session waits for the log, which one request at a time has, however long that takes.
func TestLogOfOneAtATime(t *testing.T) {
	f := newFake()
	f.sessions, f.kept = nil, []api.Directory{{Path: "/work"}}
	asked, begun, end := make(chan bool, 10), make(chan bool), make(chan bool)
	f.asked = func() { asked <- true }
	f.diff = func(io.Writer) error {
		begun <- true
		<-end
		return nil
	}
	x := newLab(t, f)
	step := "/api/folders/" + folderID("/work") + "/steps/1"
	answers := make(chan int, 2)
	go func() { answers <- x.get(step + "/diff").status }()
	<-begun
	<-asked
	go func() { answers <- x.get(step).status }()
	<-asked // it looks for the log now
	for range 100 {
		runtime.Gosched()
	}
	close(end)
	for range 2 {
		if status := <-answers; status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
}

// marking keeps the folders in which the page sets a mark.
type marking struct {
	travels
	folders *[]string
}

func (m marking) Mark(_ context.Context, _ api.Service, d api.Directory, r api.MarkRequest) ([]undolog.Mark, error) {
	*m.folders = append(*m.folders, d.Path)
	return []undolog.Mark{{Name: r.Name}}, nil
}

// A mark that the page sets is set by whoever knows which folders belong together, as its undo to it is done by them.
func TestMarkIsSetWhereAnUndoLooksForIt(t *testing.T) {
	f, folders := newFake(), []string{}
	x := newLabOf(t, f, marking{travels{f}, &folders})
	a := x.post("/api/folders/"+folderID("/work")+"/mark", map[string]any{"name": "here"})
	if a.status != http.StatusOK || !strings.Contains(a.body, `"here"`) || !slices.Equal(folders, []string{"/work"}) {
		t.Errorf("%d %s: marks in %q", a.status, a.body, folders)
	}
}
