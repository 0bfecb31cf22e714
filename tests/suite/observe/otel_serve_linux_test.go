package observe

import (
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// TestTelemetryOfServe drives sessions by both protocols: each request has its
// span with the request's id, below the session's or where the client says that
// it belongs, and every session is counted when the program ends.
func TestTelemetryOfServe(t *testing.T) {
	for _, w := range serving() {
		t.Run(w.name, func(t *testing.T) {
			r := newReceiver(t)
			s := folder(t)
			s.Env = append(s.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
			stderr := w.do(t, s, work, true)
			r.mu.Lock()
			defer r.mu.Unlock()
			if strings.Contains(r.text, "sekrit") || strings.Contains(stderr, "telemetry") {
				t.Errorf("contents, arguments or values leave the house, or something failed: %s", stderr)
			}
			byName := map[string]ids{}
			for _, id := range r.spanIDs() {
				byName[id.name] = id
			}
			if byName["session"].parent != "b7ad6b7169203331" {
				t.Errorf("session: %+v", byName["session"])
			}
			parent, trace := byName["session"].span, "0af7651916cd43dd8448eb211c80319c"
			if w.name == "mcp" { // its client has a trace of its own
				parent, trace = "00f067aa0ba902b7", "4bf92f3577b34da6a3ce929d0e0e4736"
			}
			for _, name := range []string{"step", "read_file", "undo"} {
				if id := byName[name]; id.parent != parent || id.trace != trace {
					t.Errorf("%s is not where it belongs: %+v", name, id)
				}
			}
			spans := map[string]*tracepb.Span{}
			for _, span := range r.spans() {
				spans[span.Name] = span
			}
			if a := attrs(spans["step"].GetAttributes()); a["sandbox.request_id"] != w.execute || a["sandbox.frontend"] != w.name ||
				a["sandbox.program"] != "sh" || a["sandbox.outcome"] != "completed" {
				t.Errorf("step: %v", a)
			}
			if a := attrs(spans["undo"].GetAttributes()); a["sandbox.request_id"] != w.undone {
				t.Errorf("undo: %v", a)
			}
			if r.total("sandbox.steps") == 0 || r.total("sandbox.undo.duration") != 1 || r.total("sandbox.first_touches") == 0 {
				t.Errorf("steps %d, undos %d, first touches %d", r.total("sandbox.steps"), r.total("sandbox.undo.duration"), r.total("sandbox.first_touches"))
			}
		})
	}
}
