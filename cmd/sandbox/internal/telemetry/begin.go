package telemetry

import (
	"context"

	"go.opentelemetry.io/otel"
)

// Begin is [Start] for a program that works all the same when nothing can be
// exported: errors are logged. What it returns may be nil; end exports what is left.
// The options must have a logger.
func Begin(ctx context.Context, o Options) (t *Telemetry, end func()) {
	t, err := Start(ctx, o)
	if err != nil {
		o.Logger.Warn("telemetry is off", "err", err)
	}
	if t != nil { // the SDK's own way to complain writes plain text on stderr
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Logger.Warn("telemetry not exported", "err", err) }))
	}
	return t, func() {
		if err := t.Shutdown(ctx); err != nil {
			o.Logger.Warn("telemetry did not end cleanly", "err", err)
		}
	}
}
