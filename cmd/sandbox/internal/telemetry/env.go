package telemetry

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// signal is how traces or metrics are exported.
type signal struct {
	exporters []string // "otlp", "console"
	url       string
	header    http.Header
	timeout   time.Duration
}

func (s signal) on() bool { return len(s.exporters) > 0 }

// settings are what the OTEL_* variables say.
type settings struct {
	traces, metrics signal
	interval        time.Duration // of metrics
	parent          string        // traceparent
	remarks         []string      // what is not done as it was asked for
}

// read reads the variables. The SDK reads those of the sampler, the resource and
// the queue itself.
func read(getenv func(string) string) (s settings, err error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return s, nil
	}
	if s.traces, err = s.signal(getenv, "TRACES"); err != nil {
		return s, err
	}
	if s.metrics, err = s.signal(getenv, "METRICS"); err != nil {
		return s, err
	}
	s.interval, err = milliseconds(getenv, time.Minute, "OTEL_METRIC_EXPORT_INTERVAL")
	s.parent = getenv("TRACEPARENT")
	return s, err
}

func (s *settings) signal(getenv func(string) string, name string) (g signal, err error) {
	first := func(suffix string) (value string, own bool) {
		if v := getenv("OTEL_EXPORTER_OTLP_" + name + "_" + suffix); v != "" {
			return v, true
		}
		return getenv("OTEL_EXPORTER_OTLP_" + suffix), false
	}
	endpoint, own := first("ENDPOINT")
	// The standard's default is otlp to localhost; ours is to do nothing unless
	// somebody asks.
	choice := getenv("OTEL_" + name + "_EXPORTER")
	if choice == "" && endpoint != "" {
		choice = "otlp"
	}
	for c := range strings.SplitSeq(choice, ",") {
		switch c = strings.TrimSpace(c); c {
		case "", "none":
		case "otlp", "console":
			g.exporters = append(g.exporters, c)
		default:
			return g, fmt.Errorf("OTEL_%s_EXPORTER: %q is not one of otlp, console, none", name, c)
		}
	}
	if !g.on() {
		return g, nil
	}
	if endpoint == "" {
		endpoint = "http://localhost:4318"
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return g, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %q is no http or https address", endpoint)
	}
	if !own {
		u = u.JoinPath("v1", strings.ToLower(name))
	}
	g.url = u.String()
	switch p, _ := first("PROTOCOL"); p {
	case "", "http/json":
	case "http/protobuf":
		s.remarks = append(s.remarks, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf: the JSON form of the same protocol is sent, to the same address")
	default:
		return g, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %q is not supported; use http/json or http/protobuf (port 4318)", p)
	}
	headers, _ := first("HEADERS")
	if g.header, err = parseHeaders(headers); err != nil {
		return g, err
	}
	g.timeout, err = milliseconds(getenv, 10*time.Second, "OTEL_EXPORTER_OTLP_"+name+"_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
	return g, err
}

// parseHeaders reads "key=value,key=value", percent-encoded. Its error does not
// repeat the text: it may be a token.
func parseHeaders(text string) (http.Header, error) {
	h := http.Header{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		k, v, ok := strings.Cut(pair, "=")
		key, value := strings.TrimSpace(k), ""
		var err error
		if ok && key != "" {
			value, err = url.PathUnescape(strings.TrimSpace(v))
		}
		if !ok || key == "" || err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: not of the form key=value,key=value")
		}
		h.Set(key, value)
	}
	return h, nil
}

// milliseconds reads the first of the variables that is set.
func milliseconds(getenv func(string) string, def time.Duration, names ...string) (time.Duration, error) {
	for _, name := range names {
		v := getenv(name)
		if v == "" {
			continue
		}
		n, err := strconv.Atoi(v)
		if err != nil || n <= 0 || n > int(24*time.Hour/time.Millisecond) {
			return 0, fmt.Errorf("%s: %q is no number of milliseconds", name, v)
		}
		return time.Duration(n) * time.Millisecond, nil
	}
	return def, nil
}
