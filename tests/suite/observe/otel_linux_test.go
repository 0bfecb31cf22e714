package observe

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracespb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/codeagent/sandbox/tests/kit/drive"
)

// receiver is an OTLP receiver: what it gets must be what the standard's own
// schema knows, to the last field.
type receiver struct {
	*httptest.Server
	t        testing.TB
	mu       sync.Mutex
	requests int
	headers  []http.Header
	text     string
	traces   []*tracespb.ExportTraceServiceRequest
	raw      []map[string]any // of traces: identifiers are not what protojson reads
	metrics  []*metricspb.ExportMetricsServiceRequest
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{t: t}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	r.headers = append(r.headers, req.Header)
	r.text += string(body)
	if err != nil || req.Method != http.MethodPost || req.Header.Get("Content-Type") != "application/json" {
		r.t.Errorf("request %s %s %q: %v", req.Method, req.URL, req.Header, err)
	}
	decode := func(m proto.Message) {
		if err := protojson.Unmarshal(body, m); err != nil {
			r.t.Errorf("%s: not OTLP: %v\n%s", req.URL, err, body)
		}
	}
	switch req.URL.Path {
	case "/v1/traces":
		m := &tracespb.ExportTraceServiceRequest{}
		decode(m)
		r.traces = append(r.traces, m)
		var raw map[string]any
		if err := json.Unmarshal(body, &raw); err != nil {
			r.t.Error(err)
		}
		r.raw = append(r.raw, raw)
	case "/v1/metrics":
		m := &metricspb.ExportMetricsServiceRequest{}
		decode(m)
		r.metrics = append(r.metrics, m)
	default:
		r.t.Errorf("posted to %s", req.URL)
	}
	_, _ = io.WriteString(w, "{}")
}

// ids are a span's name, own id, parent and trace.
type ids struct{ name, span, parent, trace string }

func (r *receiver) spanIDs() (all []ids) {
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if v["spanId"] != nil {
				text := func(k string) string { s, _ := v[k].(string); return s }
				all = append(all, ids{text("name"), text("spanId"), text("parentSpanId"), text("traceId")})
				return
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	for _, m := range r.raw {
		walk(m)
	}
	return all
}

func (r *receiver) spans() (all []*tracepb.Span) {
	for _, m := range r.traces {
		for _, rs := range m.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				all = append(all, ss.Spans...)
			}
		}
	}
	return all
}

func attrs(list []*commonpb.KeyValue) map[string]string {
	m := map[string]string{}
	for _, kv := range list {
		b, _ := protojson.Marshal(kv.Value)
		var v map[string]any
		_ = json.Unmarshal(b, &v)
		for _, x := range v {
			if s, ok := x.(string); ok {
				m[kv.Key] = s
			}
		}
	}
	return m
}

// total is the sum of a counter's points, or how many values a histogram has.
func (r *receiver) total(name string) (n int64) {
	last := map[string]int64{}
	for _, m := range r.metrics {
		for _, rm := range m.ResourceMetrics {
			for _, sm := range rm.ScopeMetrics {
				for _, one := range sm.Metrics {
					if one.Name != name {
						continue
					}
					for _, p := range one.GetSum().GetDataPoints() {
						last[keyOf(p.Attributes)] = p.GetAsInt()
					}
					for _, p := range one.GetHistogram().GetDataPoints() {
						last[keyOf(p.Attributes)] = int64(p.Count)
					}
				}
			}
		}
	}
	for _, v := range last {
		n += v
	}
	return n
}

func keyOf(list []*commonpb.KeyValue) string {
	b, _ := json.Marshal(attrs(list))
	return string(b)
}

func TestTelemetryToAReceiver(t *testing.T) {
	r := newReceiver(t)
	s := drive.New(t, func(t testing.TB, root string) {
		for _, name := range []string{"a", "b", "c"} {
			if err := os.WriteFile(filepath.Join(root, name), []byte("sekrit-content"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})
	s.Env = append(s.Env,
		"OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20abc,x-tenant=7",
		"OTEL_SERVICE_NAME=my-agent", "OTEL_RESOURCE_ATTRIBUTES=team=blue", "SEKRIT_ENV=sekrit-value",
		"TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	res := s.Do(t, "run", "--safeguard-deletes", "2", "--safeguard-timeout", "50ms", "--", "sh", "-c", "echo out; echo sekrit-new >a; rm a b c; exit 0", "sekrit-argument")
	if res.Stdout != "out\n" {
		t.Errorf("stdout: %q", res.Stdout)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.headers {
		if h.Get("Authorization") != "Bearer abc" || h.Get("X-Tenant") != "7" {
			t.Errorf("headers: %q", h)
		}
	}
	if strings.Contains(r.text, "sekrit") || strings.Contains(res.Stderr, "Bearer") {
		t.Error("contents, arguments or values leave the house")
	}
	byName := map[string]ids{}
	for _, id := range r.spanIDs() {
		byName[id.name] = id
		if id.trace != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("span %+v is in another trace", id)
		}
	}
	if len(byName) != 2 || byName["session"].parent != "b7ad6b7169203331" || byName["step"].parent != byName["session"].span {
		t.Errorf("spans: %+v", byName)
	}
	resource := attrs(r.traces[0].ResourceSpans[0].Resource.Attributes)
	if resource["service.name"] != "my-agent" || resource["team"] != "blue" || resource["service.version"] == "" {
		t.Errorf("resource: %v", resource)
	}
	for _, span := range r.spans() {
		if span.EndTimeUnixNano < span.StartTimeUnixNano || span.StartTimeUnixNano == 0 {
			t.Errorf("span %s: %d to %d", span.Name, span.StartTimeUnixNano, span.EndTimeUnixNano)
		}
		if span.Name != "step" {
			continue
		}
		if a := attrs(span.Attributes); a["sandbox.program"] != "sh" || a["sandbox.outcome"] != "denied" || a["sandbox.step_id"] != "1" || a["sandbox.frontend"] != "cli" {
			t.Errorf("step: %v", a)
		}
		var events []string
		for _, e := range span.Events {
			events = append(events, e.Name)
		}
		if !slices.Contains(events, "safeguard triggered") || !slices.Contains(events, "safeguard decided") {
			t.Errorf("events of the step: %q", events)
		}
	}
	for name, want := range map[string]int64{"sandbox.steps": 1, "sandbox.safeguards": 1, "sandbox.hold.duration": 1, "sandbox.actor.restarts": 0} {
		if got := r.total(name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	if r.total("sandbox.first_touches") == 0 {
		t.Error("no first touches")
	}
}

func TestTelemetryIsOffUnlessAskedFor(t *testing.T) {
	r := newReceiver(t)
	for _, env := range [][]string{
		{"OTEL_SDK_DISABLED=true", "OTEL_EXPORTER_OTLP_ENDPOINT=" + r.URL},
		{"OTEL_TRACES_EXPORTER=none", "OTEL_METRICS_EXPORTER=none", "OTEL_EXPORTER_OTLP_ENDPOINT=" + r.URL},
		{"OTEL_SERVICE_NAME=x"},
	} {
		s := drive.New(t, nil)
		s.Env = append(s.Env, env...)
		if res := s.Run(t, "echo x > a"); strings.Contains(res.Stderr, "telemetry") {
			t.Errorf("%q: %s", env, res.Stderr)
		}
	}
	if r.requests != 0 {
		t.Errorf("%d requests", r.requests)
	}
}

// A receiver that accepts and never answers costs a moment at the very end, and
// nothing before.
func TestTelemetryReceiverHangs(t *testing.T) {
	release := make(chan struct{})
	hang := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(func() { close(release); hang.Close() })
	s := drive.New(t, nil)
	s.Env = append(s.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+hang.URL, "OTEL_EXPORTER_OTLP_TIMEOUT=3600000", "OTEL_BSP_SCHEDULE_DELAY=5", "OTEL_BSP_MAX_QUEUE_SIZE=4", "OTEL_METRIC_EXPORT_INTERVAL=5")
	res := s.Must(t, "run", "--log-format", "json", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do echo $i > f$i; sleep 0.02; done; echo done")
	if res.Stdout != "done\n" || res.Took > 5*time.Minute { // an hour, if it is waited for
		t.Errorf("took %v, stdout %q", res.Took, res.Stdout)
	}
	for line := range strings.Lines(res.Stderr) { // the SDK has a voice of its own
		if !strings.HasPrefix(line, "{") && !strings.HasPrefix(line, "step ") {
			t.Errorf("on stderr: %q", line)
		}
	}
	for _, e := range s.History(t) {
		if e.Status != "completed" {
			t.Errorf("step: %+v", e)
		}
	}
}

func TestTelemetryReceiverRefuses(t *testing.T) {
	refuse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	refuse.Close() // connection refused
	s := drive.New(t, nil)
	s.Env = append(s.Env, "OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+refuse.URL)
	res := s.Must(t, "run", "--", "echo", "x")
	if res.Stdout != "x\n" || strings.Count(res.Stderr, "telemetry is not exported") != 1 {
		t.Errorf("stdout %q, stderr %s", res.Stdout, res.Stderr)
	}
	logLines(t, res.Stderr)
}

func TestTelemetryToTheConsole(t *testing.T) {
	s := drive.New(t, nil)
	s.Env = append(s.Env, "OTEL_TRACES_EXPORTER=console", "OTEL_METRICS_EXPORTER=console")
	res := s.Must(t, "run", "--", "echo", "x")
	if res.Stdout != "x\n" {
		t.Errorf("stdout: %q", res.Stdout)
	}
	var traces, metrics int
	for line := range strings.Lines(res.Stderr) {
		switch {
		case protojson.Unmarshal([]byte(line), &tracespb.ExportTraceServiceRequest{}) == nil && strings.Contains(line, "resourceSpans"):
			traces++
		case protojson.Unmarshal([]byte(line), &metricspb.ExportMetricsServiceRequest{}) == nil && strings.Contains(line, "resourceMetrics"):
			metrics++
		}
	}
	if traces == 0 || metrics == 0 {
		t.Errorf("%d messages of traces and %d of metrics in %s", traces, metrics, res.Stderr)
	}
}
