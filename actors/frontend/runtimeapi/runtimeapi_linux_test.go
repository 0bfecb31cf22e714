package runtimeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

const local = "127.0.0.1:0"

// TestTour is what a client of agent-sandbox does: it looks whether the sandbox is there, runs commands, and writes, reads, lists and looks for files. All of it can be undone.
func TestTour(t *testing.T) {
	r := newRig(t, local, nil)
	before := treesnap.MustTake(t, r.work)
	if a := r.send("GET", "/", nil); a.status != 200 || !bytes.Contains(a.body, []byte(`"status":"ok"`)) || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %s", a.status, a.body)
	}
	for command, want := range map[string]result{
		`echo 'hello   world' "a\"b" $HOME | *`:      {"hello   world a\"b $HOME | *\n", "", 0},
		`sh -c 'echo out; echo err >&2; exit 3'`:     {"out\n", "err\n", 3},
		`sh -c 'pwd; echo $HOME'`:                    {r.work + "\n" + r.work + "\n", "", 0},
		`sh -c 'kill -9 $$'`:                         {"", "", -9},
		`printf '<&>\377'`:                           {"<&>\uFFFD", "", 0},
		`cat project/src/main.txt`:                   {"hello\n", "", 0},
		"sh -c 'printf \"%s-\" \"$@\"' sh '' \"\" x": {"--x-", "", 0},
	} {
		if got := r.run(command); got != want {
			t.Errorf("%s: %+v, want %+v", command, got, want)
		}
	}
	for _, command := range []string{"", "no-such-program x", "echo 'open", `'' x`, "project", "a\x00b"} { // what cannot be run is an answer, too
		if got := r.run(command); got.ExitCode != 1 || got.Stdout != "" || !strings.HasPrefix(got.Stderr, "Failed to execute command: ") {
			t.Errorf("%q: %+v", command, got)
		}
	}
	if n := r.steps(); n != 0 {
		t.Errorf("%d steps, and nothing was changed", n)
	}
	const odd = "made/here/ü %20\"x"
	want(t, "upload", r.put(odd, "content\n"), 200, "uploaded successfully")
	want(t, "upload", r.put("/over", "one"), 200, "uploaded successfully") // absolute paths are the folder's
	want(t, "upload", r.put("over", "two"), 200, "uploaded successfully")
	if a := r.get("download", odd); a.status != 200 || string(a.body) != "content\n" || a.header.Get("Content-Type") != "application/octet-stream" || a.header.Get("Content-Length") != "8" {
		t.Errorf("%d %q %v", a.status, a.body, a.header)
	}
	if r.on("over") != "two" || r.on(odd) != "content\n" {
		t.Errorf("%q, %q", r.on("over"), r.on(odd))
	}
	if got := r.run("ln -s project/src link"); got.ExitCode != 0 {
		t.Fatalf("%+v", got)
	}
	for _, path := range []string{"/list/", "/list/.", "/list", "/list/%2E", "/list/%2F", "/list/made%2F.."} {
		if got := names(t, r.send("GET", path, nil)); !slices.Equal(got, []string{"directory link", "directory made", "file over", "directory project"}) {
			t.Errorf("%s: %q", path, got)
		}
	}
	var entries []map[string]any
	if err := json.Unmarshal(r.get("list", "link").body, &entries); err != nil || len(entries) != 1 {
		t.Fatal(err, entries)
	}
	st, err := os.Stat(filepath.Join(r.work, "project/src/main.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if e := entries[0]; len(e) != 4 || e["name"] != "main.txt" || e["size"] != 6.0 || e["type"] != "file" || e["mod_time"] != float64(st.ModTime().UnixNano())/1e9 {
		t.Errorf("%v", e)
	}
	for name, want := range map[string]bool{"project": true, "over": true, "": true, "none": false, "over/x": false, strings.Repeat("x", 300): false, odd: true} {
		var e struct {
			Path   string
			Exists bool
		}
		if a := r.get("exists", name); a.status != 200 || json.Unmarshal(a.body, &e) != nil || e.Exists != want || e.Path != name {
			t.Errorf("%q: %d %s", name, a.status, a.body)
		}
	}
	want(t, "no file", r.get("download", "none"), 404, "no such file")
	want(t, "a directory", r.get("download", "project"), 404, "no such file")
	want(t, "no directory", r.get("list", "over"), 404, "no such directory")

	// A mistake, and its end.
	if got := r.run("sh -c 'rm -rf * && ls'"); got.ExitCode != 0 || got.Stdout != "" {
		t.Fatalf("%+v", got)
	}
	a := r.send("POST", "/undo", nil)
	var undone struct {
		PathCount int `json:"path_count"`
		Steps     []struct{ Command string }
	}
	if json.Unmarshal(a.body, &undone) != nil || a.status != 200 || len(undone.Steps) != 1 || undone.PathCount == 0 || !strings.Contains(undone.Steps[0].Command, "rm -rf") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if r.on("over") != "two" {
		t.Errorf("%q", r.on("over"))
	}
	if a := r.send("GET", "/history?limit=2", nil); a.status != 200 || bytes.Count(a.body, []byte(`"step_id"`)) != 2 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.send("POST", "/undo", strings.NewReader(fmt.Sprintf(`{"count":%d}`, r.steps()))); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, r.work))
	want(t, "nothing to undo", r.send("POST", "/undo", nil), 409, "")
}

// TestPaths: no path leads out of the folder, whatever it is written like.
func TestPaths(t *testing.T) {
	r := newRig(t, local, nil)
	if err := errors.Join(os.Symlink("/etc", filepath.Join(r.work, "out")), os.Symlink("/etc/hostname", filepath.Join(r.work, "host")),
		os.Symlink("../undo", filepath.Join(r.work, "up")), os.Symlink("nowhere", filepath.Join(r.work, "none"))); err != nil {
		t.Fatal(err)
	}
	before := treesnap.MustTake(t, r.work)
	for _, name := range []string{"..", "../../etc/passwd", "/../etc/passwd", "project/../../x", "../work-other", "x\x00", "/../" + filepath.Base(r.work) + "/../x"} {
		for _, verb := range []string{"exists", "download", "list"} {
			a := r.get(verb, name)
			want(t, verb+" "+name, a, http.StatusForbidden, "Access denied")
		}
		if strings.IndexByte(name, 0) < 0 { // no header has one
			want(t, "upload "+name, r.put(name, "x"), http.StatusForbidden, "Access denied")
		}
	}
	for _, raw := range []string{"/exists/../../etc/passwd", "/exists/%2e%2e/x", "/download/..%2f..%2fetc%2fpasswd"} { // as no client of theirs sends it
		want(t, raw, r.send("GET", raw, nil), http.StatusForbidden, "Access denied")
	}
	for verb, name := range map[string]string{"list": "out", "download": "out/passwd", "exists": "out/passwd"} {
		want(t, verb+" through a symlink", r.get(verb, name), http.StatusForbidden, "Access denied")
	}
	for _, verb := range []string{"download", "exists"} {
		want(t, verb+" of a symlink", r.get(verb, "host"), http.StatusForbidden, "Access denied")
	}
	for _, name := range []string{"out/x", "host"} {
		want(t, "upload through a symlink", r.put(name, "x"), http.StatusForbidden, "Access denied")
	}
	want(t, "upload to where commands may not look", r.put("up/x", "x"), http.StatusForbidden, "")
	if a := r.get("exists", "none"); !bytes.Contains(a.body, []byte(`"exists":false`)) {
		t.Errorf("a symlink that leads nowhere: %d %s", a.status, a.body)
	}
	long := strings.Repeat("x", 300)
	want(t, "too long a name", r.get("download", long), 400, "")
	want(t, "too long a path", r.get("list", strings.Repeat("x/", 3000)), 400, "")
	want(t, "too long a name", r.put(long, "x"), 400, "")
	for _, name := range []string{"/", ".", "project", "new/"} {
		if a := r.put(name, "x"); a.status != 400 && a.status != 404 {
			t.Errorf("upload %q: %d %s", name, a.status, a.body)
		}
	}
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, r.work))
	if n := r.steps(); n != 0 {
		t.Errorf("%d steps", n)
	}
}

// TestBadRequests: what is no proper request changes nothing, is told so, and is in nobody's way.
func TestBadRequests(t *testing.T) {
	r := newRig(t, local, nil)
	before := treesnap.MustTake(t, r.work)
	const form = "Content-Type: multipart/form-data; boundary=b"
	part := func(name, file, content string) string {
		return fmt.Sprintf("--b\r\nContent-Disposition: form-data; name=%q; filename=%q\r\n\r\n%s\r\n", name, file, content)
	}
	for _, c := range []struct {
		what, method, path, body string
		status                   int
		headers                  []string
	}{
		{"a form in the place of JSON", "POST", "/execute", "command=x", 415, []string{"Content-Type: application/x-www-form-urlencoded"}},
		{"no kind", "POST", "/execute", `{"command":"x"}`, 415, nil},
		{"no JSON", "POST", "/execute", `{"command":`, 422, []string{asJSON}},
		{"nothing", "POST", "/execute", ``, 422, []string{asJSON}},
		{"no command", "POST", "/execute", `{"cmd":"x"}`, 422, []string{asJSON}},
		{"a command that is none", "POST", "/execute", `{"command":["x"]}`, 422, []string{asJSON}},
		{"two commands", "POST", "/execute", `{"command":"touch a","command":"touch b"}`, 422, []string{asJSON}},
		{"too long a command", "POST", "/execute", `{"command":"` + strings.Repeat("x", maxCommand) + `"}`, 413, []string{asJSON}},
		{"another method", "GET", "/execute", "", 405, nil},
		{"another method", "DELETE", "/", "", 405, nil},
		{"another method", "POST", "/list/x", "", 405, nil},
		{"no such request", "GET", "/v1/files/x", "", 404, nil},
		{"no such request", "POST", "/execute/x", `{"command":"touch a"}`, 404, []string{asJSON}},
		{"no such request", "PUT", "/undo", "", 404, nil},
		{"no form", "POST", "/upload", "x", 422, nil},
		{"a form without a boundary", "POST", "/upload", "x", 422, []string{"Content-Type: multipart/form-data"}},
		{"an empty form", "POST", "/upload", "--b--\r\n", 422, []string{form}},
		{"another part", "POST", "/upload", part("data", "f", "x") + "--b--\r\n", 422, []string{form}},
		{"a part without a name", "POST", "/upload", "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--b--\r\n", 422, []string{form}},
		{"two files", "POST", "/upload", part("file", "f", "x") + part("file", "g", "x") + "--b--\r\n", 422, []string{form}},
		{"no form at all", "POST", "/upload", "not a form", 422, []string{form}},
		{"a form without its end", "POST", "/upload", part("file", "project/src/main.txt", "x"), 400, []string{form}},
		{"a file without its end", "POST", "/upload", "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"project/src/main.txt\"\r\n\r\nhalf", 400, []string{form}},
		{"an undo that is none", "POST", "/undo", `{"steps":"x"}`, 400, nil},
	} {
		want(t, c.what, r.send(c.method, c.path, strings.NewReader(c.body), c.headers...), c.status, "")
	}
	// Half a request, and then nothing.
	for _, head := range []string{"POST /execute HTTP/1.1\r\nHost: localhost\r\n" + asJSON + "\r\nContent-Length: 100\r\n\r\n{\"command\":\"touch a\"",
		"POST /upload HTTP/1.1\r\nHost: localhost\r\n" + form + "\r\nContent-Length: 1000\r\n\r\n" + part("file", "project/src/main.txt", "half")} {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, head)
		_ = c.(*net.TCPConn).CloseWrite()
		if answer, _ := io.ReadAll(c); !bytes.HasPrefix(answer, []byte("HTTP/1.1 400")) {
			t.Errorf("%.40s: %s", head, answer)
		}
		_ = c.Close()
	}
	// A hundred that send a head slowly are in nobody's way.
	var slow []net.Conn
	for range 100 {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		slow = append(slow, c)
		_, _ = io.WriteString(c, "POST /execute HTTP/1.1\r\nHost: local")
	}
	if got := r.run("echo here"); got.Stdout != "here\n" {
		t.Errorf("%+v", got)
	}
	for _, c := range slow {
		_ = c.Close()
	}
	actortest.Eventually(t, "the end of the connections", func() bool { return r.s.clients.Len() <= 1 })
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, r.work))
	if n := r.steps(); n != 0 {
		t.Errorf("%d steps", n)
	}
}

// TestWho: at a loopback address no token is needed as long as there is none; elsewhere one is, unless it was said that reaching the address is enough. No browser may ask, and no name that only leads here.
func TestWho(t *testing.T) {
	const token = "X-Access-Token: 0123456789abcdef"
	for _, c := range []struct {
		address string
		open    bool
		without int // without a token
		name    int // by another name
	}{{local, false, 200, 403}, {local, true, 200, 403}, {"0.0.0.0:0", false, 401, 401}, {"0.0.0.0:0", true, 200, 200}} {
		t.Run(fmt.Sprint(c.address, c.open), func(t *testing.T) {
			r := newRig(t, c.address, func(o *Options) { o.Open = c.open })
			ask := func(headers ...string) int { return r.send("GET", "/exists/project", nil, headers...).status }
			if got := ask(); got != c.without {
				t.Errorf("without a token: %d", got)
			}
			if got := ask("Host: page.test"); got != c.name {
				t.Errorf("by another name: %d", got)
			}
			for _, browser := range []string{"Origin: https://page.test", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-origin"} {
				if got := ask(browser); got != http.StatusForbidden {
					t.Errorf("%s: %d", browser, got)
				}
			}
			r.token.Store("0123456789abcdef")
			if a, b := ask(), ask("X-Access-Token: 0123456789abcdeg"); a != 401 || b != 401 {
				t.Errorf("there is a token: %d, %d", a, b)
			}
			if got := ask(token); got != 200 {
				t.Errorf("with the token: %d", got)
			}
			for _, path := range []string{"/execute", "/upload", "/undo"} {
				want(t, path, r.send("POST", path, strings.NewReader(`{"command":"touch a"}`), asJSON), 401, "X-Access-Token")
			}
			if a := r.send("GET", "/", nil); a.status != 200 { // probes know no token
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
}

// begin sends a command by a connection of its own, and returns when it runs.
func (r *rig) begin(command string) net.Conn {
	r.t.Helper()
	body := fmt.Sprintf(`{"command":%q}`, command)
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	_, err = fmt.Fprintf(c, "POST /execute HTTP/1.1\r\nHost: localhost\r\n%s\r\nContent-Length: %d\r\n\r\n%s", asJSON, len(body), body)
	if err != nil {
		r.t.Fatal(err)
	}
	actortest.Eventually(r.t, "the command", func() bool { return r.on("begun") == "begun\n" })
	return c
}

// running is how many commands run.
func (r *rig) running() (n int) {
	list, err := r.live.Commands(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range list {
		if c.Ended == nil {
			n++
		}
	}
	return n
}

// TestVanished: a command whose client has gone ends, and what it did can be undone. Clients send it again, and it must not run twice at the same time.
func TestVanished(t *testing.T) {
	r := newRig(t, local, nil)
	before := treesnap.MustTake(t, r.work)
	c := r.begin("sh -c 'rm -rf project; echo begun >begun; exec sleep 1000'")
	if n := r.running(); n != 1 {
		t.Errorf("%d commands", n)
	}
	_ = c.Close()
	actortest.Eventually(t, "the command's end", func() bool { return r.running() == 0 })
	actortest.Eventually(t, "the step", func() bool { return r.steps() == 1 })
	if a := r.send("POST", "/undo", nil); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, r.work))
}

// TestTimeout: a command that runs too long is ended, and answered.
func TestTimeout(t *testing.T) {
	r := newRig(t, local, func(o *Options) { o.Timeout = time.Second })
	got := r.run("sh -c 'sleep 1000; echo never'")
	if got.ExitCode != 1 || got.Stdout != "" || !strings.Contains(got.Stderr, "longer than 1s") {
		t.Errorf("%+v", got)
	}
}

// TestLarge: of a long output the beginning and the end are told, and how much is left out between them; files are not cut.
func TestLarge(t *testing.T) {
	r := newRig(t, local, nil)
	got := r.run(`sh -c 'echo first; head -c 3000000 /dev/zero; echo; echo last'`)
	if got.ExitCode != 0 || !strings.HasPrefix(got.Stdout, "first\n\x00") || !strings.HasSuffix(got.Stdout, "\x00\nlast\n") || !strings.Contains(got.Stdout, "bytes left out ...]") || len(got.Stdout) > 2*halfOutput+100 {
		t.Errorf("%d bytes, %d", len(got.Stdout), got.ExitCode)
	}
	content := strings.Repeat("0123456789abcdef", 200_000)
	want(t, "upload", r.put("large", content), 200, "")
	if a := r.get("download", "large"); a.status != 200 || string(a.body) != content {
		t.Errorf("%d, %d bytes", a.status, len(a.body))
	}
}

// TestEnd: when the server is to end, and the session with it, a command that is under way is answered, with a status that no client takes for a reason to send it again; its step is closed.
func TestEnd(t *testing.T) {
	r := newRig(t, local, nil)
	c := r.begin("sh -c 'rm -rf project; echo begun >begun; exec sleep 1000'")
	go r.close()
	r.stop()
	answer, err := io.ReadAll(c)
	_, body, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
	var res result
	if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) || json.Unmarshal(body, &res) != nil || res.ExitCode == 0 {
		t.Errorf("%v %s", err, answer)
	}
	h, err := r.live.History(context.Background(), api.HistoryRequest{})
	if err == nil && (len(h) != 1 || !strings.Contains(h[0].Command, "rm -rf")) { // the session may have ended
		t.Errorf("%+v", h)
	}
}

// TestActors: each connection is an actor of the session as long as it lasts.
func TestActors(t *testing.T) {
	r := newRig(t, local, nil)
	c := r.begin("sh -c 'echo begun >begun; exec sleep 1000'")
	has := func() bool {
		tree, err := r.live.Inspect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(tree)
		return err == nil && bytes.Contains(b, []byte("runtime/"))
	}
	if !has() {
		t.Error("the connection is no actor")
	}
	_ = c.Close()
	actortest.Eventually(t, "its actor's end", func() bool { return !has() })
}
