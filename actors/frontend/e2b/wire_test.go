package e2b

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun: what commands.run of the SDK sends, and gets.
func TestRun(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(map[string]any{"templateID": "base", "envVars": map[string]string{"FROM": "create"}})
	all, end := sb.stream("process.Process/Start",
		`{"process":{"cmd":"/bin/sh","args":["-c","echo $FROM $HOME $ASKED; echo bad >&2; pwd; exit 3"],"envs":{"ASKED":"run"},"cwd":"sub"},"stdin":false}`,
		"Keepalive-Ping-Interval: 50")
	if len(all) != 0 { // the directory is not there
		t.Fatalf("%q %s", all, end)
	}
	if e := rpcErrorOf(t, end); e.Code != "not_found" {
		t.Errorf("%+v", e)
	}
	all, end = sb.stream("process.Process/Start",
		`{"process":{"cmd":"/bin/sh","args":["-c","echo $FROM $HOME $ASKED $E2B_SANDBOX_ID; echo bad >&2; exit 3"],"envs":{"ASKED":"run"}},"stdin":false}`, "Connect-Timeout-Ms: 60000")
	if end != "{}" {
		t.Errorf("the stream ended with %s", end)
	}
	out := map[string]string{}
	for _, m := range all[1 : len(all)-1] {
		var e struct {
			Event struct{ Data map[string][]byte }
		}
		if err := json.Unmarshal([]byte(m), &e); err != nil {
			t.Fatal(err)
		}
		for stream, data := range e.Event.Data {
			out[stream] += string(data)
		}
	}
	contains(t, all[0], `{"event":{"start":{"pid":`)
	if out["stdout"] != "create "+sb.home+" run "+sb.ID+"\n" || out["stderr"] != "bad\n" {
		t.Errorf("%q", out)
	}
	if want := `{"event":{"end":{"exitCode":3,"exited":true,"status":"exit status 3","error":"exit status 3"}}}`; all[len(all)-1] != want {
		t.Errorf("%s, want %s", all[len(all)-1], want)
	}
}

// TestTalk: input, the list, and a kill, by pid and by tag.
func TestTalk(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(map[string]any{})
	done := make(chan []string)
	go func() {
		all, _ := sb.stream("process.Process/Start", `{"process":{"cmd":"cat"},"tag":"the cat","stdin":true}`)
		done <- all
	}()
	var list struct{ Processes []processInfo }
	for len(list.Processes) == 0 {
		sb.rpc("process.Process/List", map[string]any{}).into(t, &list)
	}
	p := list.Processes[0]
	if p.Tag != "the cat" || p.Config.Cmd != "cat" || p.Config.Args == nil {
		t.Errorf("%+v", p)
	}
	of := map[string]any{"pid": p.PID}
	for _, in := range []string{"one ", "two"} {
		if a := sb.rpc("process.Process/SendInput", map[string]any{"process": of, "input": map[string]any{"stdin": []byte(in)}}); a.status != 200 || string(a.body) != "{}" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if a := sb.rpc("process.Process/SendInput", map[string]any{"process": of, "input": map[string]any{"pty": []byte("x")}}); a.status != http.StatusPreconditionFailed {
		t.Errorf("input for a terminal that is not there: %d %s", a.status, a.body)
	}
	stream := append(frame(0, `{"start":{"process":{"tag":"the cat"}}}`), frame(0, fmt.Sprintf(`{"data":{"input":{"stdin":%q}}}`, base64.StdEncoding.EncodeToString([]byte(" three"))))...)
	a := r.call("POST", "/process.Process/StreamInput", append(stream, frame(0, `{"keepalive":{}}`)...), sb.headers("Content-Type: "+streamType)...)
	if got, end := frames(t, a.body); len(got) != 1 || got[0] != "{}" || end != "{}" {
		t.Errorf("%q %s", got, end)
	}
	if a := sb.rpc("process.Process/CloseStdin", map[string]any{"process": of}); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	all := strings.Join(<-done, "\n")
	var text string
	for _, m := range strings.Split(all, "\n") {
		var e struct {
			Event struct{ Data struct{ Stdout []byte } }
		}
		_ = json.Unmarshal([]byte(m), &e)
		text += string(e.Event.Data.Stdout)
	}
	if text != "one two three" {
		t.Errorf("the cat said %q", text)
	}
	for _, signal := range []any{"SIGNAL_SIGKILL", 9} {
		if a := sb.rpc("process.Process/SendSignal", map[string]any{"process": of, "signal": signal}); a.status != http.StatusNotFound {
			t.Errorf("a signal for a process that has ended: %d %s", a.status, a.body)
		}
	}
	go func() {
		all, _ := sb.stream("process.Process/Start", `{"process":{"cmd":"sleep","args":["100"]},"tag":"s"}`)
		done <- all
	}()
	for len(list.Processes) == 0 || list.Processes[0].Tag != "s" {
		sb.rpc("process.Process/List", map[string]any{}).into(t, &list)
	}
	if a := sb.rpc("process.Process/SendSignal", map[string]any{"process": map[string]any{"tag": "s"}, "signal": "SIGNAL_SIGKILL"}); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	got := <-done
	contains(t, got[len(got)-1], `"exitCode":-1,"exited":false,"status":"signal: killed"`)
}

// TestFrames: what is no request of Connect is refused in its form, and changes nothing.
func TestFrames(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(map[string]any{})
	start := `{"process":{"cmd":"true"}}`
	for _, c := range []struct {
		name, code, text string
		body             []byte
		headers          []string
	}{
		{"no message", "invalid_argument", "no message", nil, nil},
		{"a cut head", "invalid_argument", "within the head", []byte{0, 0}, nil},
		{"a cut message", "invalid_argument", "4 of 9 bytes", append([]byte{0, 0, 0, 0, 9}, "{\"a\""...), nil},
		{"a compressed one", "unimplemented", "compressed", frame(frameCompressed, start), nil},
		{"an end", "invalid_argument", "flags", frame(frameEnd, start), nil},
		{"too long", "resource_exhausted", "and may have", []byte{0, 0xff, 0xff, 0xff, 0xff}, nil},
		{"two messages", "invalid_argument", "one message", append(frame(0, start), frame(0, start)...), nil},
		{"no JSON", "invalid_argument", "no JSON", frame(0, "{"), nil},
		{"a field twice", "invalid_argument", "twice", frame(0, `{"tag":"a","tag":"b"}`), nil},
		{"a wrong type", "invalid_argument", "cannot be read", frame(0, `{"process":1}`), nil},
		{"no command", "invalid_argument", "process.cmd", frame(0, `{}`), nil},
		{"a zero byte", "invalid_argument", "zero byte", frame(0, `{"process":{"cmd":"true","cwd":"a\u0000"}}`), nil},
		{"a bad variable", "invalid_argument", "envs", frame(0, `{"process":{"cmd":"true","envs":{"A=B":"c"}}}`), nil},
		{"a terminal without a size", "invalid_argument", "pty.size", frame(0, `{"process":{"cmd":"true"},"pty":{}}`), nil},
		{"a bad deadline", "invalid_argument", "Connect-Timeout-Ms", frame(0, start), []string{"Connect-Timeout-Ms: -1"}},
		{"Protobuf", "unimplemented", "only JSON", frame(0, start), []string{"Content-Type: application/connect+proto"}},
		{"a compressed stream", "unimplemented", "as it is", frame(0, start), []string{"Connect-Content-Encoding: gzip"}},
		{"root", "permission_denied", "no root", frame(0, start), []string{"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("root:"))}},
		{"somebody", "unauthenticated", "no user", frame(0, start), []string{"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("nobody-known:"))}},
		{"no token", "unauthenticated", "X-Access-Token", frame(0, start), []string{"X-Access-Token: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := r.call("POST", "/process.Process/Start", c.body, sb.headers(append([]string{"Content-Type: " + streamType}, c.headers...)...)...)
			all, end := frames(t, a.body)
			e := rpcErrorOf(t, end)
			if a.status != 200 || len(all) > 0 || e.Code != c.code {
				t.Errorf("%d %q %s", a.status, all, end)
			}
			contains(t, e.Message, c.text)
		})
	}
	if n := len(sb.fake.commands); n > 0 {
		t.Errorf("%d commands were run", n)
	}
	if a := r.call("POST", "/process.Process/List", "{}", sb.headers("Content-Type: application/proto")...); a.status != http.StatusUnsupportedMediaType {
		t.Errorf("Protobuf: %d %s", a.status, a.body)
	}
	if a := r.call("POST", "/process.Process/Nothing", "{}", sb.headers("Content-Type: "+jsonType)...); a.status != http.StatusNotFound {
		t.Errorf("a method that there is not: %d", a.status)
	}
	large := `{"process":{"tag":"` + strings.Repeat("x", maxMessage) + `"}}`
	if a := r.call("POST", "/process.Process/CloseStdin", large, sb.headers("Content-Type: "+jsonType)...); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large message: %d %.100s", a.status, a.body)
	}
}

// TestFilesystem: the calls of files, as the SDK makes them.
func TestFilesystem(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(map[string]any{})
	var e entryResponse
	if a := sb.rpc("filesystem.Filesystem/MakeDir", map[string]any{"path": "a/b"}); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := sb.rpc("filesystem.Filesystem/MakeDir", map[string]any{"path": "~/a/b"}); a.status != http.StatusConflict || rpcErrorOf(t, string(a.body)).Code != "already_exists" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if err := os.WriteFile(filepath.Join(sb.home, "a", "f"), []byte("12345"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("f", filepath.Join(sb.home, "a", "l")); err != nil {
		t.Fatal(err)
	}
	a := sb.rpc("filesystem.Filesystem/Stat", map[string]any{"path": filepath.Join(sb.home, "a/f")})
	a.into(t, &e)
	if e.Entry.Type != "FILE_TYPE_FILE" || e.Entry.Size != "5" || e.Entry.Name != "f" || e.Entry.Permissions != "-rw-r-----" {
		t.Errorf("%s", a.body)
	}
	sb.rpc("filesystem.Filesystem/Stat", map[string]any{"path": "a/l"}).into(t, &e)
	if e.Entry.Type != "FILE_TYPE_FILE" || e.Entry.SymlinkTarget != filepath.Join(sb.home, "a/f") {
		t.Errorf("a symlink: %+v", e)
	}
	a = sb.rpc("filesystem.Filesystem/ListDir", map[string]any{"path": "a", "depth": 1})
	var l struct{ Entries []entryInfo }
	a.into(t, &l)
	if len(l.Entries) != 3 {
		t.Errorf("%s", a.body)
	}
	a = sb.rpc("filesystem.Filesystem/Move", map[string]any{"source": "a/f", "destination": "g"})
	a.into(t, &e)
	if e.Entry.Path != filepath.Join(sb.home, "g") {
		t.Errorf("%s", a.body)
	}
	for _, path := range []string{"a", "a"} { // also what is not there
		if a := sb.rpc("filesystem.Filesystem/Remove", map[string]any{"path": path}); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if a := sb.rpc("filesystem.Filesystem/Stat", map[string]any{"path": "a"}); a.status != http.StatusNotFound || rpcErrorOf(t, string(a.body)).Code != "not_found" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestWatch: a watch that streams, and one whose events are asked for, as Python's SDK does it.
func TestWatch(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(map[string]any{})
	all, end := sb.stream("filesystem.Filesystem/WatchDir", `{"path":"","recursive":false}`, "Connect-Timeout-Ms: 1500")
	if len(all) != 2 || all[0] != `{"start":{}}` || all[1] != `{"filesystem":{"name":"made","type":"EVENT_TYPE_CREATE"}}` {
		t.Errorf("%q", all)
	}
	if e := rpcErrorOf(t, end); e.Code != "deadline_exceeded" {
		t.Errorf("%+v", e)
	}
	var w struct{ WatcherID string }
	sb.rpc("filesystem.Filesystem/CreateWatcher", map[string]any{"path": "."}).into(t, &w)
	var got struct{ Events []fileEvent }
	for len(got.Events) == 0 {
		sb.rpc("filesystem.Filesystem/GetWatcherEvents", map[string]any{"watcherId": w.WatcherID}).into(t, &got)
	}
	if got.Events[0].Name != "made" {
		t.Errorf("%+v", got)
	}
	for _, want := range []int{200, 404} {
		if a := sb.rpc("filesystem.Filesystem/RemoveWatcher", map[string]any{"watcherId": w.WatcherID}); a.status != want {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	for range maxWatchers {
		if a := sb.rpc("filesystem.Filesystem/CreateWatcher", map[string]any{"path": "."}); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if a := sb.rpc("filesystem.Filesystem/CreateWatcher", map[string]any{"path": "."}); a.status != http.StatusTooManyRequests {
		t.Errorf("one watcher too many: %d %s", a.status, a.body)
	}
	if a := sb.rpc("filesystem.Filesystem/CreateWatcher", map[string]any{"path": "nothing"}); a.status == 200 {
		t.Errorf("a watcher of nothing: %s", a.body)
	}
}

// TestFiles: uploads in both forms, and downloads.
func TestFiles(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(map[string]any{})
	at := func(path string) string { return "/files?path=" + url.QueryEscape(path) }
	binary := string([]byte{0, 1, 0xff, 0xfe, '\n'})
	a := r.call("POST", at("dir/o.bin"), binary, sb.headers("Content-Type: application/octet-stream")...)
	var files []written
	a.into(t, &files)
	if len(files) != 1 || files[0] != (written{"o.bin", "file", filepath.Join(sb.home, "dir/o.bin")}) {
		t.Errorf("%s", a.body)
	}
	a = r.call("GET", at("dir/o.bin"), nil, sb.headers()...)
	if string(a.body) != binary || a.header.Get("Content-Length") != "5" || !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%q %v", a.body, a.header)
	}
	var form bytes.Buffer
	m := multipart.NewWriter(&form)
	for _, name := range []string{"one/ä b", "/" + filepath.ToSlash(sb.home)[1:] + "/two"} {
		w, err := m.CreateFormFile("file", name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, "content of ", name)
	}
	_ = m.Close()
	a = r.call("POST", "/files", form.Bytes(), sb.headers("Content-Type: "+m.FormDataContentType())...)
	a.into(t, &files)
	if b, _ := os.ReadFile(filepath.Join(sb.home, "one", "ä b")); string(b) != "content of one/ä b" || len(files) != 2 || files[1].Name != "two" {
		t.Errorf("%s %q", a.body, b)
	}
	var z bytes.Buffer
	g := gzip.NewWriter(&z)
	fmt.Fprint(g, "small")
	_ = g.Close()
	r.call("POST", at("z"), z.Bytes(), sb.headers("Content-Type: application/octet-stream", "Content-Encoding: gzip")...)
	if b, _ := os.ReadFile(filepath.Join(sb.home, "z")); string(b) != "small" {
		t.Errorf("%q", b)
	}
	a = r.call("POST", "/files/compose", map[string]any{"source_paths": []string{"z", "two"}, "destination": "all"}, sb.headers()...)
	if b, _ := os.ReadFile(filepath.Join(sb.home, "all")); !strings.HasPrefix(string(b), "smallcontent of /") {
		t.Errorf("%d %s %q", a.status, a.body, b)
	}
	if _, err := os.Stat(filepath.Join(sb.home, "z")); err == nil {
		t.Error("a source is still there")
	}
	for _, c := range []struct {
		what, method, path, body string
		status                   int
		headers                  []string
	}{
		{"a file that is not there", "GET", at("none"), "", 404, nil},
		{"a directory", "GET", at("dir"), "", 400, nil},
		{"a zero byte", "GET", at("a\x00"), "", 400, nil},
		{"another token", "GET", at("all"), "", 401, []string{"X-Access-Token: " + strings.Repeat("x", 43)}},
		{"root", "GET", at("all") + "&username=root", "", 403, nil},
		{"no type", "POST", at("all"), "x", 400, []string{"Content-Type: "}},
		{"another type", "POST", at("all"), "x", 415, []string{"Content-Type: text/plain"}},
		{"no path", "POST", "/files", "x", 400, []string{"Content-Type: application/octet-stream"}},
		{"metadata", "POST", at("all"), "x", 501, []string{"Content-Type: application/octet-stream", "X-Metadata-A: b"}},
		{"a form without a boundary", "POST", at("all"), "x", 400, []string{"Content-Type: multipart/form-data"}},
		{"a cut form", "POST", at("all"), "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"x\"\r\n\r\nhalf", 400, []string{"Content-Type: multipart/form-data; boundary=b"}},
		{"no gzip", "POST", at("all"), "x", 400, []string{"Content-Type: application/octet-stream", "Content-Encoding: gzip"}},
		{"another coding", "POST", at("all"), "x", 415, []string{"Content-Type: application/octet-stream", "Content-Encoding: br"}},
	} {
		a := r.call(c.method, c.path, c.body, sb.headers(c.headers...)...)
		if status, _ := errorOf(t, a); status != c.status {
			t.Errorf("%s: %d %s", c.what, a.status, a.body)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(sb.home, "all")); !strings.HasPrefix(string(b), "small") {
		t.Errorf("a request that was refused has changed the file: %q", b)
	}
}

// TestOwn: requests about the history, with STDIO's bodies.
func TestOwn(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(map[string]any{})
	path := "/sandboxes/" + sb.ID
	a := r.call("POST", path+"/undo", map[string]any{"count": 2})
	var u struct {
		PathCount int `json:"path_count"`
	}
	a.into(t, &u)
	if a.status != 200 || u.PathCount != 2 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.call("POST", path+"/marks", map[string]any{"name": "here"}); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	contains(t, string(r.call("GET", path+"/marks", nil).body), `"name":"here"`)
	for body, status := range map[string]int{`{"to":"barred"}`: 409, `{"count":11}`: 409, `{"counts":1}`: 400, `[]`: 400, `{"count":0}`: 400, `{"directory":"x"`: 400} {
		a := r.call("POST", path+"/undo", body)
		if got, _ := errorOf(t, a); got != status {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	contains(t, string(r.call("POST", path+"/undo", `{"to":"barred"}`).body), `"code":"barrier"`)
	sb.fake.mu.Lock()
	sb.fake.busy = true
	sb.fake.mu.Unlock()
	if a := r.call("POST", path+"/undo", nil); a.status != 409 {
		t.Errorf("busy: %d %s", a.status, a.body)
	}
	if a := r.call("GET", path+"/history?limit=x", nil); a.status != 400 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.call("POST", "/sandboxes/none/undo", nil); a.status != 404 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
