package telemetry

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The messages of OTLP 1.x in the JSON form of protobuf, with the standard's
// exceptions: identifiers are hexadecimal, enumerations are numbers. 64-bit
// integers are strings.

type (
	keyValue struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
	otlpResource struct {
		Attributes []keyValue `json:"attributes,omitempty"`
	}
	otlpScope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}

	tracesMessage struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   otlpResource `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
		SchemaURL  string       `json:"schemaUrl,omitempty"`
	}
	scopeSpans struct {
		Scope otlpScope  `json:"scope"`
		Spans []otlpSpan `json:"spans"`
	}
	otlpSpan struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		ParentID   string      `json:"parentSpanId,omitempty"`
		TraceState string      `json:"traceState,omitempty"`
		Flags      uint32      `json:"flags,omitempty"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []keyValue  `json:"attributes,omitempty"`
		Events     []otlpEvent `json:"events,omitempty"`
		Status     otlpStatus  `json:"status"`
	}
	otlpEvent struct {
		Time       string     `json:"timeUnixNano"`
		Name       string     `json:"name"`
		Attributes []keyValue `json:"attributes,omitempty"`
	}
	otlpStatus struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}

	metricsMessage struct {
		ResourceMetrics []resourceMetrics `json:"resourceMetrics"`
	}
	resourceMetrics struct {
		Resource     otlpResource   `json:"resource"`
		ScopeMetrics []scopeMetrics `json:"scopeMetrics"`
	}
	scopeMetrics struct {
		Scope   otlpScope    `json:"scope"`
		Metrics []otlpMetric `json:"metrics"`
	}
	otlpMetric struct {
		Name        string    `json:"name"`
		Description string    `json:"description,omitempty"`
		Unit        string    `json:"unit,omitempty"`
		Sum         *otlpData `json:"sum,omitempty"`
		Gauge       *otlpData `json:"gauge,omitempty"`
		Histogram   *otlpData `json:"histogram,omitempty"`
	}
	otlpData struct {
		Points      []point `json:"dataPoints"`
		Temporality int     `json:"aggregationTemporality,omitempty"`
		Monotonic   bool    `json:"isMonotonic,omitempty"`
	}
	point struct {
		Attributes []keyValue `json:"attributes,omitempty"`
		Start      string     `json:"startTimeUnixNano,omitempty"`
		Time       string     `json:"timeUnixNano"`
		AsInt      string     `json:"asInt,omitempty"`
		AsDouble   *number    `json:"asDouble,omitempty"`
		Count      string     `json:"count,omitempty"`
		Sum        *number    `json:"sum,omitempty"`
		Min        *number    `json:"min,omitempty"`
		Max        *number    `json:"max,omitempty"`
		Buckets    []string   `json:"bucketCounts,omitempty"`
		Bounds     []float64  `json:"explicitBounds,omitempty"`
	}
)

// number is a double, which need not be finite.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	switch f := float64(n); {
	case math.IsNaN(f):
		return []byte(`"NaN"`), nil
	case math.IsInf(f, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(f, -1):
		return []byte(`"-Infinity"`), nil
	default:
		return json.Marshal(f)
	}
}

func nanos(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixNano(), 10)
}

func attributes(list []attribute.KeyValue) []keyValue {
	out := make([]keyValue, 0, len(list))
	for _, a := range list {
		out = append(out, keyValue{string(a.Key), anyValue(a.Value)})
	}
	return out
}

func anyValue(v attribute.Value) map[string]any {
	array := func(n int, at func(int) attribute.Value) map[string]any {
		values := make([]map[string]any, n)
		for i := range values {
			values[i] = anyValue(at(i))
		}
		return map[string]any{"arrayValue": map[string]any{"values": values}}
	}
	switch v.Type() {
	case attribute.BOOL:
		return map[string]any{"boolValue": v.AsBool()}
	case attribute.INT64:
		return map[string]any{"intValue": strconv.FormatInt(v.AsInt64(), 10)}
	case attribute.FLOAT64:
		return map[string]any{"doubleValue": number(v.AsFloat64())}
	case attribute.STRINGSLICE:
		s := v.AsStringSlice()
		return array(len(s), func(i int) attribute.Value { return attribute.StringValue(s[i]) })
	case attribute.INT64SLICE:
		s := v.AsInt64Slice()
		return array(len(s), func(i int) attribute.Value { return attribute.Int64Value(s[i]) })
	default:
		return map[string]any{"stringValue": v.String()}
	}
}

func scopeOf(s instrumentation.Scope) otlpScope { return otlpScope{s.Name, s.Version} }

// encodeSpans makes one message; all spans are of one provider.
func encodeSpans(spans []sdktrace.ReadOnlySpan) tracesMessage {
	res := resourceSpans{SchemaURL: spans[0].Resource().SchemaURL()}
	res.Resource.Attributes = attributes(spans[0].Resource().Attributes())
	for _, s := range spans {
		scope := scopeOf(s.InstrumentationScope())
		if n := len(res.ScopeSpans); n == 0 || res.ScopeSpans[n-1].Scope != scope {
			res.ScopeSpans = append(res.ScopeSpans, scopeSpans{Scope: scope})
		}
		last := &res.ScopeSpans[len(res.ScopeSpans)-1]
		last.Spans = append(last.Spans, encodeSpan(s))
	}
	return tracesMessage{[]resourceSpans{res}}
}

func encodeSpan(s sdktrace.ReadOnlySpan) otlpSpan {
	c := s.SpanContext()
	o := otlpSpan{
		TraceID: c.TraceID().String(), SpanID: c.SpanID().String(), TraceState: c.TraceState().String(), Flags: uint32(c.TraceFlags()),
		Name: s.Name(), Kind: int(s.SpanKind()), Start: nanos(s.StartTime()), End: nanos(s.EndTime()),
		Attributes: attributes(s.Attributes()),
	}
	if p := s.Parent(); p.HasSpanID() {
		o.ParentID = p.SpanID().String()
	}
	for _, e := range s.Events() {
		o.Events = append(o.Events, otlpEvent{nanos(e.Time), e.Name, attributes(e.Attributes)})
	}
	switch s.Status().Code {
	case codes.Ok:
		o.Status.Code = 1
	case codes.Error:
		o.Status = otlpStatus{2, s.Status().Description}
	}
	return o
}

func encodeMetrics(m *metricdata.ResourceMetrics) metricsMessage {
	res := resourceMetrics{}
	res.Resource.Attributes = attributes(m.Resource.Attributes())
	for _, s := range m.ScopeMetrics {
		scope := scopeMetrics{Scope: scopeOf(s.Scope)}
		for _, one := range s.Metrics {
			o := otlpMetric{Name: one.Name, Description: one.Description, Unit: one.Unit}
			switch d := one.Data.(type) {
			case metricdata.Sum[int64]:
				o.Sum = &otlpData{intPoints(d.DataPoints), temporality(d.Temporality), d.IsMonotonic}
			case metricdata.Gauge[int64]:
				o.Gauge = &otlpData{Points: intPoints(d.DataPoints)}
			case metricdata.Histogram[float64]:
				o.Histogram = &otlpData{Points: histogramPoints(d.DataPoints), Temporality: temporality(d.Temporality)}
			default:
				continue // no instrument of ours
			}
			scope.Metrics = append(scope.Metrics, o)
		}
		res.ScopeMetrics = append(res.ScopeMetrics, scope)
	}
	return metricsMessage{[]resourceMetrics{res}}
}

func temporality(t metricdata.Temporality) int {
	if t == metricdata.DeltaTemporality {
		return 1
	}
	return 2
}

func intPoints(points []metricdata.DataPoint[int64]) []point {
	out := make([]point, len(points))
	for i, p := range points {
		out[i] = point{Attributes: attributes(p.Attributes.ToSlice()), Start: nanos(p.StartTime), Time: nanos(p.Time), AsInt: strconv.FormatInt(p.Value, 10)}
	}
	return out
}

func histogramPoints(points []metricdata.HistogramDataPoint[float64]) []point {
	out := make([]point, len(points))
	for i, p := range points {
		sum := number(p.Sum)
		out[i] = point{Attributes: attributes(p.Attributes.ToSlice()), Start: nanos(p.StartTime), Time: nanos(p.Time),
			Count: strconv.FormatUint(p.Count, 10), Sum: &sum, Bounds: p.Bounds}
		if v, ok := p.Min.Value(); ok {
			n := number(v)
			out[i].Min = &n
		}
		if v, ok := p.Max.Value(); ok {
			n := number(v)
			out[i].Max = &n
		}
		for _, b := range p.BucketCounts {
			out[i].Buckets = append(out[i].Buckets, strconv.FormatUint(b, 10))
		}
	}
	return out
}
