package e2b

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// TestPython: where Python's SDK differs on the wire: a stream's request comes in chunks, fields with their default are left out, the user is named in each request, and the protocol's version is said.
func TestPython(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(map[string]any{"templateID": "base", "autoPause": false, "timeout": 300, "allow_internet_access": true, "secure": true})
	send := func(path, kind string, body []byte) reply {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, r.http.URL+path, io.MultiReader(bytes.NewReader(body[:1]), bytes.NewReader(body[1:]))) // of no known length
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Content-Type": kind, "Connect-Protocol-Version": "1", "Connect-Timeout-Ms": "60000", "Keepalive-Ping-Interval": "50", "E2b-Sandbox-Id": sb.ID, "E2b-Sandbox-Port": "49983",
			"X-Access-Token": sb.Token, "Authorization": "Basic dXNlcjo=", "Accept-Encoding": "gzip, deflate", "User-Agent": "e2b-python-sdk/2.20.0",
		} {
			req.Header.Set(name, value)
		}
		res, err := r.http.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply{res.StatusCode, res.Header, b}
	}
	a := send("/process.Process/Start", streamType, frame(0, `{"process":{"cmd":"/bin/sh","args":["-c","echo hi"]}}`))
	all, end := frames(t, a.body)
	if len(all) != 3 || end != "{}" || all[1] != `{"event":{"data":{"stdout":"aGkK"}}}` || a.header.Get("Content-Encoding") != "" {
		t.Errorf("%q %s", all, end)
	}
	if a := send("/filesystem.Filesystem/ListDir", jsonType, []byte(`{"path":"/"}`)); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := send("/filesystem.Filesystem/MakeDir", jsonType, []byte(`{"path":"made"}`)); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.call("POST", "/files?username=user&path=made/f", "text", sb.headers("Content-Type: application/octet-stream")...); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	// The versions before 2.46 connect without /v2.
	if a := r.call("POST", "/sandboxes/"+sb.ID+"/connect", map[string]any{"timeout": 300}); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestKeepAlive: a stream in which nothing happens says that it lives, as often as the client wants to hear it.
func TestKeepAlive(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(map[string]any{})
	done := make(chan []string)
	go func() {
		all, _ := sb.stream("process.Process/Start", `{"process":{"cmd":"cat"}}`, "Keepalive-Ping-Interval: 50")
		done <- all
	}()
	var l struct{ Processes []processInfo }
	actortest.Eventually(t, "the command", func() bool {
		sb.rpc("process.Process/List", map[string]any{}).into(t, &l)
		return len(l.Processes) == 1
	})
	for range 2 {
		r.clock.WaitArmed(50 * time.Second)
		r.clock.Advance(50 * time.Second)
	}
	r.clock.WaitArmed(50 * time.Second) // the second one was sent
	sb.rpc("process.Process/CloseStdin", map[string]any{"process": map[string]any{"pid": l.Processes[0].PID}})
	n := 0
	for _, m := range <-done {
		if m == `{"event":{"keepalive":{}}}` {
			n++
		}
	}
	if n != 2 {
		t.Errorf("it was said %d times", n)
	}
}
