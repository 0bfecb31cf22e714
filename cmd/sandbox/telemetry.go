package main

import (
	"context"
	"os"

	"go.opentelemetry.io/otel"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/telemetry"
)

// startTelemetry exports metrics and traces if the OTEL_* variables ask for it;
// what it returns may be nil. stop exports what is left. What cannot be exported
// is no reason not to work.
func (a *app) startTelemetry(ctx context.Context) (t *telemetry.Telemetry, stop func()) {
	t, err := telemetry.Start(ctx, telemetry.Options{Getenv: os.Getenv, Console: a.stderr, Version: version, Logger: a.log})
	if err != nil {
		a.log.Warn("telemetry is off", "err", err)
	}
	if t != nil { // the SDK's own way to complain writes plain text on stderr
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { a.log.Warn("telemetry not exported", "err", err) }))
	}
	return t, func() {
		if err := t.Shutdown(ctx); err != nil {
			a.log.Warn("telemetry did not end cleanly", "err", err)
		}
	}
}
