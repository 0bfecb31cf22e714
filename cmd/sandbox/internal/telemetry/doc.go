// Package telemetry exports metrics and traces of a session by OpenTelemetry if
// the standard OTEL_* variables ask for it. Without them it does nothing: it
// starts no goroutine, wraps nothing and allocates nothing.
//
// It stands outside the session: [Telemetry.Live] wraps one, and exports only what
// the wrapper sees (calls and their results, the session's events, its tree of
// actors). It exports no arguments of commands, no contents and no values.
//
// The SDK is OpenTelemetry's own. The exporters are ours, because the official
// ones bring gRPC and sixty more packages, which cost every start of the program
// 1.5 ms and 6 MB. OTLP over HTTP has a JSON form, which is a page of code.
//
// An exporter never blocks a session: spans are queued and dropped when the
// queue is full, and [Telemetry.Shutdown] gives up after a moment. Nothing is
// written to stdout.
package telemetry
