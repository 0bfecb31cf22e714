package ui

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/control"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Of 1,000 connections those beyond the limit are told so, the page that was there goes on, and later there is room again.
func TestThousandConnections(t *testing.T) {
	x := newLab(t, newFake())
	if a := x.get("/api/overview"); a.status != 200 { // its connection stays
		t.Fatalf("the page: %d %s", a.status, a.body)
	}
	host := strings.TrimPrefix(x.base, "http://")
	counts := map[int]int{}
	var open []net.Conn
	for range 1000 {
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
		_ = c.SetDeadline(time.Now().Add(wait))
		if _, err := fmt.Fprintf(c, "GET /api/overview HTTP/1.1\r\nHost: %s\r\n\r\n", host); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		counts[res.StatusCode]++
		res.Body.Close()
		if res.StatusCode == http.StatusServiceUnavailable && !res.Close {
			t.Fatal("a connection too many stays")
		}
	}
	if counts[http.StatusServiceUnavailable] == 0 || counts[http.StatusUnauthorized] > maxConnections || len(counts) != 2 {
		t.Errorf("answers: %v", counts)
	}
	if a := x.get("/api/overview"); a.status != 200 {
		t.Errorf("the page: %d %s", a.status, a.body)
	}
	for _, c := range open {
		c.Close()
	}
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: wait}
	for a := x.do(fresh, x.request("GET", "/", nil)); a.status != 200; a = x.do(fresh, x.request("GET", "/", nil)) {
		if a.code() != "too_many_connections" || t.Context().Err() != nil {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
}

// dying is a session whose supervisor is killed during a request.
type dying struct{ travels }

func (d dying) Dial(context.Context, api.SessionInfo) (Session, error) { return hungUp{d.fake}, nil }

func (d dying) Undo(context.Context, api.Service, api.Directory, api.UndoRequest) (r api.UndoResult, err error) {
	return r, control.ErrDisconnected
}

type hungUp struct{ *fake }

func (hungUp) History(context.Context, api.HistoryRequest) ([]undolog.Entry, error) {
	return nil, fmt.Errorf("history: %w", control.ErrDisconnected)
}

// A session that ends during a request is no fault of the server, and the page can go on.
func TestSessionDies(t *testing.T) {
	fake := newFake()
	x := newLabOf(t, fake, dying{travels{fake}})
	f := "/api/folders/" + folderID("/work")
	if a := x.get(f + "/history"); a.status != http.StatusServiceUnavailable || a.code() != "session_ended" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := x.post(f+"/undo", map[string]any{"count": 1, "dry_run": true}); a.status != http.StatusServiceUnavailable || a.code() != "session_ended" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := x.get("/api/overview"); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// held holds an undo up, once it has begun, until the server has been asked to end.
type held struct {
	travels
	begun, ended, looking chan struct{}
}

func (h held) Dial(context.Context, api.SessionInfo) (Session, error) {
	return looked{h.fake, h.looking}, nil
}

// looked makes a diff until its page leaves.
type looked struct {
	*fake
	looking chan struct{}
}

func (l looked) Diff(ctx context.Context, _ api.StepRequest, _ io.Writer) error {
	close(l.looking)
	<-ctx.Done()
	return ctx.Err()
}

func (h held) Undo(ctx context.Context, c api.Service, d api.Directory, r api.UndoRequest) (api.UndoResult, error) {
	if !r.DryRun {
		close(h.begun)
		<-h.ended
	}
	return h.travels.Undo(ctx, c, d, r)
}

// At the end, what changes something is done and answered before the server's owner goes on, and what only looks is told that it is not.
func TestEndsWithItsRequests(t *testing.T) {
	f := newFake()
	h := held{travels{f}, make(chan struct{}), make(chan struct{}), make(chan struct{})}
	x := newLabOf(t, f, h)
	folder := "/api/folders/" + folderID("/work")
	page, err := x.page.Do(x.request("GET", "/api/events", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	undone, looked := make(chan answer, 1), make(chan answer, 1)
	go func() {
		defer close(undone) // if there is no answer
		undone <- x.post(folder+"/undo", map[string]any{"count": 1, "expect": []undolog.StepID{3}})
	}()
	go func() {
		defer close(looked)
		looked <- x.get(folder + "/steps/1/diff")
	}()
	<-h.begun
	<-h.looking
	served := make(chan struct{})
	go func() { x.end(); close(served) }()
	if _, err := io.Copy(io.Discard, page.Body); err != nil { // the page's events end
		t.Error(err)
	}
	for c, err := net.Dial("tcp", strings.TrimPrefix(x.base, "http://")); err == nil; c, err = net.Dial("tcp", strings.TrimPrefix(x.base, "http://")) {
		c.Close() // it is about to end
	}
	select {
	case <-served:
		t.Error("the server has ended before its requests")
	default:
	}
	close(h.ended)
	if a := <-undone; a.status != http.StatusOK {
		t.Errorf("undo: %d %s", a.status, a.body)
	}
	if a := <-looked; a.status != http.StatusServiceUnavailable || a.code() != "cancelled" {
		t.Errorf("diff: %d %s", a.status, a.body)
	}
	<-served
	if f.undone != 1 {
		t.Errorf("undone %d times", f.undone)
	}
}
