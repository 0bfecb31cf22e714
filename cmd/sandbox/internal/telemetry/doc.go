// Package telemetry exports metrics and traces of a session by OpenTelemetry,
// when the standard OTEL_* variables ask for it. Without them there is nothing:
// no goroutine, no wrapper, no allocation.
//
// It stands outside: [Telemetry.Live] wraps a session, and what the wrapper sees
// (calls and their results, the session's events, its tree of actors) is all
// that is told. Neither arguments of commands nor contents nor values leave.
//
// The SDK is OpenTelemetry's own, the exporters are not: the official ones bring
// gRPC and sixty more packages, which cost every start of the program 1.5 ms and
// 6 MB. OTLP over HTTP has a JSON form, which is a page of code.
//
// An exporter never blocks a session: spans are queued and dropped when the
// queue is full, and [Telemetry.Shutdown] gives up after a moment. Nothing is
// written to stdout.
package telemetry
