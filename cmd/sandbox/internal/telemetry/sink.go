package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// sink takes messages of OTLP in their JSON form: it posts them, or prints them.
// A failure is logged, once until it works again, and goes no further: the SDK
// would print it.
type sink struct {
	signal  signal
	console io.Writer // nil: post
	client  *http.Client
	log     *slog.Logger
	what    string
	mu      sync.Mutex // console
	failing atomic.Bool
}

func newSink(exporter string, s signal, console io.Writer, log *slog.Logger, what string) *sink {
	k := &sink{signal: s, log: log, what: what}
	if exporter == "console" {
		if k.console = console; console == nil {
			k.console = io.Discard
		}
		return k
	}
	k.client = &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, ForceAttemptHTTP2: false},
		Timeout:       s.timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return k
}

func (k *sink) send(ctx context.Context, message any) {
	b, err := json.Marshal(message)
	if err == nil {
		err = k.deliver(ctx, b)
	}
	if err == nil {
		if k.failing.Swap(false) {
			k.log.Info("telemetry is exported again", "signal", k.what)
		}
		return
	}
	if !k.failing.Swap(true) {
		k.log.Warn("telemetry is not exported", "signal", k.what, "err", err)
	}
}

func (k *sink) deliver(ctx context.Context, b []byte) error {
	if k.console != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		_, err := k.console.Write(append(b, '\n'))
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, k.signal.url, bytes.NewReader(b))
	if err != nil {
		return err
	}
	for key, values := range k.signal.header {
		req.Header[key] = values
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := k.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver answers %s", res.Status)
	}
	return nil
}

func (k *sink) close() {
	if k.client != nil {
		k.client.CloseIdleConnections()
	}
}

// spanExporter implements [sdktrace.SpanExporter].
type spanExporter struct{ *sink }

var _ sdktrace.SpanExporter = (*spanExporter)(nil)

// ExportSpans sends the spans.
func (e *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) > 0 {
		e.send(ctx, encodeSpans(spans))
	}
	return nil
}

// Shutdown ends connections.
func (e *spanExporter) Shutdown(context.Context) error { e.close(); return nil }

// metricExporter implements [sdkmetric.Exporter].
type metricExporter struct{ *sink }

var _ sdkmetric.Exporter = (*metricExporter)(nil)

// Temporality is cumulative.
func (e *metricExporter) Temporality(sdkmetric.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}

// Aggregation is the SDK's default.
func (e *metricExporter) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}

// Export sends the metrics.
func (e *metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	if len(m.ScopeMetrics) > 0 {
		e.send(ctx, encodeMetrics(m))
	}
	return nil
}

// ForceFlush has nothing to do: nothing is kept.
func (e *metricExporter) ForceFlush(context.Context) error { return nil }

// Shutdown ends connections.
func (e *metricExporter) Shutdown(context.Context) error { e.close(); return nil }
