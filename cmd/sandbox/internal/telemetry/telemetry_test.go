package telemetry

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages/logctx"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func TestMain(m *testing.M) { actortest.Main(m) }

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for _, p := range pairs {
			if k, v, _ := strings.Cut(p, "="); k == name {
				return v
			}
		}
		return ""
	}
}

func TestVariables(t *testing.T) {
	for _, c := range []struct {
		env                     []string
		traces, metrics, failed string
	}{
		{nil, "", "", ""},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://h:4318"}, "http://h:4318/v1/traces", "http://h:4318/v1/metrics", ""},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=https://h/base/"}, "https://h/base/v1/traces", "https://h/base/v1/metrics", ""},
		{[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://h/mine"}, "http://h/mine", "", ""},
		{[]string{"OTEL_TRACES_EXPORTER=otlp"}, "http://localhost:4318/v1/traces", "", ""},
		{[]string{"OTEL_TRACES_EXPORTER=none", "OTEL_EXPORTER_OTLP_ENDPOINT=http://h"}, "", "http://h/v1/metrics", ""},
		{[]string{"OTEL_SDK_DISABLED=TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT=http://h"}, "", "", ""},
		{[]string{"OTEL_TRACES_EXPORTER=otlp,console", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"}, "http://localhost:4318/v1/traces", "", ""},
		{[]string{"OTEL_TRACES_EXPORTER=jaeger"}, "", "", "jaeger"},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=h:4318"}, "", "", "ENDPOINT"},
		{[]string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, "", "", "grpc"},
		{[]string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_HEADERS=sekrit"}, "", "", "HEADERS"},
		{[]string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_TIMEOUT=-1"}, "", "", "TIMEOUT"},
		{[]string{"OTEL_METRICS_EXPORTER=otlp", "OTEL_METRIC_EXPORT_INTERVAL=soon"}, "", "", "INTERVAL"},
	} {
		s, err := read(environment(c.env...))
		if c.failed != "" {
			if err == nil || !strings.Contains(err.Error(), c.failed) || strings.Contains(err.Error(), "sekrit") {
				t.Errorf("%q: error %v", c.env, err)
			}
			continue
		}
		if err != nil || s.traces.url != c.traces || s.metrics.url != c.metrics {
			t.Errorf("%q: %q and %q, error %v", c.env, s.traces.url, s.metrics.url, err)
		}
	}
}

func TestTraceparent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if c := parseTraceparent(good); !c.IsValid() || !c.IsSampled() || c.SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("%+v", c)
	}
	if c := parseTraceparent("cc" + good[2:] + "-later"); !c.IsValid() {
		t.Error("a later version is refused")
	}
	for _, bad := range []string{"", "x", good[:54], good + "0", good + "-x", "ff" + good[2:], strings.ReplaceAll(good, "0af7", "ZZZZ"),
		"00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", strings.Repeat("-", 60)} {
		if parseTraceparent(bad).IsValid() {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// fake is a session that answers what the tests need.
type fake struct {
	api.Live
	hear func(api.Event)
	ctx  context.Context
	err  error
	tree api.Tree
}

func (f *fake) ID() string                                         { return "s" }
func (f *fake) Observe(h func(api.Event)) func()                   { f.hear = h; return func() {} }
func (f *fake) Subscribe(func(api.Event), ...api.EventType) func() { return func() {} }
func (f *fake) Inspect(context.Context) (api.Tree, error)          { return f.tree, nil }
func (f *fake) Close(context.Context) error                        { return nil }
func (f *fake) Undo(ctx context.Context, _ api.UndoRequest) (api.UndoResult, error) {
	f.ctx = ctx
	return api.UndoResult{Took: time.Second, PathCount: 3}, f.err
}

func TestOffIsTheSessionItself(t *testing.T) {
	tel, err := Start(t.Context(), Options{Getenv: environment("OTEL_SERVICE_NAME=x", "TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")})
	if tel != nil || err != nil {
		t.Fatalf("%v, %v", tel, err)
	}
	f := &fake{}
	if tel.Live(f) != api.Live(f) || f.hear != nil || tel.Shutdown(t.Context()) != nil {
		t.Error("something is in between")
	}
}

// locked is a buffer that exporters write to from their goroutines.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func TestCallsAndEvents(t *testing.T) {
	var out locked
	tel, err := Start(t.Context(), Options{Getenv: environment("OTEL_TRACES_EXPORTER=console", "OTEL_METRICS_EXPORTER=console"), Console: &out, Version: "v"})
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{tree: api.Tree{Root: api.TreeNode{Children: []api.TreeNode{
		{Name: "0", Mailbox: 2, Restarts: 3, Holds: 4, Facts: map[string]string{"in_flight": "5", "captures": "6"}},
	}}}}
	live := tel.Live(f)
	ctx := logctx.With(t.Context(), logctx.Fields{RequestID: "r-1", TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
	if _, err := live.Undo(ctx, api.UndoRequest{}); err != nil {
		t.Fatal(err)
	}
	if logctx.From(f.ctx).RequestID != "r-1" {
		t.Error("the context is lost")
	}
	f.err = errors.New("barrier in the way")
	_, _ = live.Undo(t.Context(), api.UndoRequest{})
	at := time.Unix(100, 0)
	f.hear(api.Event{Type: api.EventSafeguardTriggered, At: at, Pending: &api.Pending{ID: "g", Kind: "delete_threshold"}})
	f.hear(api.Event{Type: api.EventSafeguardDecided, At: at.Add(3 * time.Second), Decision: &api.DecideRequest{ID: "g", By: "somebody odd"}})
	f.hear(api.Event{Type: api.EventStepCompleted, Step: -1, Outcome: "completed", Last: true, Entry: &undolog.Entry{Type: undolog.TypeAmbient, StartedAt: at, EndedAt: at.Add(time.Second), StoredBytes: 77}})
	f.hear(api.Event{Type: api.EventRecovery, At: at})
	f.hear(api.Event{Type: api.EventWarning})
	if err := live.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := live.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	text := out.b.String()
	for _, want := range []string{
		`"traceId":"0af7651916cd43dd8448eb211c80319c"`, `"parentSpanId":"b7ad6b7169203331"`, `"name":"undo"`, `"name":"ambient step"`, `"name":"session"`,
		`"status":{"code":2,"message":"barrier in the way"}`, `{"key":"sandbox.request_id","value":{"stringValue":"r-1"}}`,
		`{"key":"by","value":{"stringValue":"other"}}`, `"sum":3,`, `"asInt":"77"`, `"asInt":"6"`, `"startTimeUnixNano":"100000000000","endTimeUnixNano":"101000000000"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing: %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
