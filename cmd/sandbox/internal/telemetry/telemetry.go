package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/codeagent/sandbox/messages/logctx"
)

// Scope is the name under which everything is exported.
const Scope = "github.com/codeagent/sandbox"

// farewell bounds how long [Telemetry.Shutdown] waits for a receiver.
const farewell = 2 * time.Second

// Options make a [Telemetry].
type Options struct {
	// Getenv reads the OTEL_* variables and TRACEPARENT. The SDK reads some of
	// them itself, from the process.
	Getenv func(string) string
	// Console is where the console exporter writes: stderr, never stdout, which
	// belongs to a protocol.
	Console io.Writer
	Version string
	// Logger may be nil.
	Logger *slog.Logger
}

// Telemetry exports. A nil one does nothing. Methods are safe for concurrent
// use.
type Telemetry struct {
	tracer trace.Tracer
	meter  metric.Meter
	inst   *instruments
	parent trace.SpanContext
	stop   []func(context.Context) error
}

// Start begins to export if the variables ask for it; else it returns nil. Its
// error says which variable cannot be used.
func Start(ctx context.Context, o Options) (*Telemetry, error) {
	s, err := read(o.Getenv)
	if err != nil || !s.traces.on() && !s.metrics.on() {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	log := o.Logger.With(logctx.KeyComponent, "session")
	for _, r := range s.remarks {
		log.Info(r)
	}
	res, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "sandbox"), attribute.String("service.version", o.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && res == nil {
		return nil, err
	}
	if err != nil {
		log.Warn("telemetry: not all of OTEL_RESOURCE_ATTRIBUTES is understood")
	}
	t := &Telemetry{tracer: nooptrace.NewTracerProvider().Tracer(Scope), meter: noopmetric.NewMeterProvider().Meter(Scope), parent: parseTraceparent(s.parent)}
	if s.traces.on() {
		opts := []sdktrace.TracerProviderOption{sdktrace.WithResource(res)}
		for _, e := range s.traces.exporters {
			opts = append(opts, sdktrace.WithBatcher(&spanExporter{newSink(e, s.traces, o.Console, log, "traces")}))
		}
		p := sdktrace.NewTracerProvider(opts...)
		t.tracer = p.Tracer(Scope, trace.WithInstrumentationVersion(o.Version))
		t.stop = append(t.stop, p.Shutdown)
	}
	if s.metrics.on() {
		opts := []sdkmetric.Option{sdkmetric.WithResource(res)}
		for _, e := range s.metrics.exporters {
			sink := newSink(e, s.metrics, o.Console, log, "metrics")
			opts = append(opts, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(&metricExporter{sink},
				sdkmetric.WithInterval(s.interval), sdkmetric.WithTimeout(s.metrics.timeout))))
		}
		p := sdkmetric.NewMeterProvider(opts...)
		t.meter = p.Meter(Scope, metric.WithInstrumentationVersion(o.Version))
		t.stop = append(t.stop, p.Shutdown)
	}
	if t.inst, err = newInstruments(t.meter); err != nil {
		return nil, errors.Join(err, t.Shutdown(ctx))
	}
	return t, nil
}

// Shutdown exports what is left and ends; it takes two seconds at most.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	done := make(chan error, len(t.stop))
	for _, stop := range t.stop {
		go func() { done <- stop(ctx) }()
	}
	var errs []error
	for range t.stop {
		errs = append(errs, <-done)
	}
	return errors.Join(errs...)
}

// parseTraceparent reads the W3C's form: version-trace-span-flags. What is not
// of that form is ignored, as the standard wants it.
func parseTraceparent(text string) trace.SpanContext {
	in := propagation.MapCarrier{"traceparent": text}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), in))
}
