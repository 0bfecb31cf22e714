package telemetry

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages/logctx"
)

// Live returns the session so that it is told of: a span for the session, one
// below it for each call, and the metrics. Closing what is returned closes the
// session. A nil Telemetry returns the session itself.
func (t *Telemetry) Live(s api.Live) api.Live {
	if t == nil {
		return s
	}
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), t.parent)
	l := &live{Live: s, t: t, steps: map[undolog.StepID]trace.Span{}, holds: map[string]time.Time{}}
	l.ctx, l.span = t.tracer.Start(ctx, "session", trace.WithAttributes(attribute.String("sandbox.session", s.ID())))
	if o, ok := s.(interface {
		Observe(func(api.Event)) func()
	}); ok {
		l.unsubscribe = o.Observe(l.hear)
	} else {
		l.unsubscribe = s.Subscribe(l.hear)
	}
	t.inst.sessions.add(s)
	return l
}

// live tells of what is asked of a session.
type live struct {
	api.Live
	t           *Telemetry
	ctx         context.Context // of the session's span
	span        trace.Span
	unsubscribe func()
	once        sync.Once

	mu    sync.Mutex
	steps map[undolog.StepID]trace.Span // of commands that run
	holds map[string]time.Time          // undecided safeguards
}

var _ api.Live = (*live)(nil)

// start begins the span of a call, below the caller's if it told its own, else
// below the session's.
func (l *live) start(ctx context.Context, name string, from api.Origin, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	f := logctx.From(ctx)
	parent := trace.SpanContextFromContext(l.ctx)
	if p := parseTraceparent(f.TraceParent); p.IsValid() {
		parent = p
	}
	if from.RequestID == "" {
		from.RequestID = f.RequestID
	}
	for key, value := range map[string]string{"sandbox.request_id": from.RequestID, "sandbox.frontend": from.Frontend, "sandbox.tool": from.Tool} {
		if value != "" {
			attrs = append(attrs, attribute.String(key, value))
		}
	}
	return l.t.tracer.Start(trace.ContextWithSpanContext(ctx, parent), name, trace.WithAttributes(attrs...))
}

// end ends it. Errors are told by their kind alone where they may quote.
func end(span trace.Span, err error, attrs ...attribute.KeyValue) {
	span.SetAttributes(attrs...)
	if err != nil {
		span.SetStatus(codes.Error, brief(err))
	}
	span.End()
}

func brief(err error) string {
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if r := []rune(text); len(r) > 200 {
		text = string(r[:200]) + "..."
	}
	return text
}

// Run implements [api.Runner].
func (l *live) Run(ctx context.Context, r api.RunRequest) (api.RunResult, error) {
	var program string
	if len(r.Argv) > 0 {
		program = filepath.Base(r.Argv[0]) // the arguments may hold secrets
	}
	ctx, span := l.start(ctx, "step", r.Origin, attribute.String("sandbox.program", program), attribute.Int("sandbox.arguments", max(len(r.Argv)-1, 0)))
	started := r.Started
	var id undolog.StepID
	r.Started = func(step undolog.StepID, p hypervisor.Process) {
		id = step
		l.mu.Lock()
		l.steps[step] = span
		l.mu.Unlock()
		span.AddEvent("command started")
		if started != nil {
			started(step, p)
		}
	}
	res, err := l.Live.Run(ctx, r)
	l.mu.Lock()
	delete(l.steps, id)
	l.mu.Unlock()
	attrs := []attribute.KeyValue{attribute.Int64("sandbox.step_id", int64(res.Step)), attribute.String("sandbox.outcome", res.Outcome)}
	if err == nil {
		attrs = append(attrs, attribute.Int("process.exit.code", res.Status.Code))
	}
	affected, stored := 0, int64(0)
	for _, e := range res.Entries {
		affected, stored = affected+e.Entry.AffectedCount, stored+e.Entry.StoredBytes
	}
	end(span, err, append(attrs, attribute.Int("sandbox.affected", affected), attribute.Int64("sandbox.stored_bytes", stored))...)
	return res, err
}

// call runs f in a span.
func call[T any](ctx context.Context, l *live, name string, from api.Origin, f func(context.Context) (T, error), attrs ...attribute.KeyValue) (T, error) {
	ctx, span := l.start(ctx, name, from, attrs...)
	v, err := f(ctx)
	end(span, err)
	return v, err
}

// ReadFile implements [api.Files].
func (l *live) ReadFile(ctx context.Context, r api.ReadFileRequest) (api.FileContent, error) {
	return call(ctx, l, "read_file", api.Origin{}, func(ctx context.Context) (api.FileContent, error) { return l.Live.ReadFile(ctx, r) })
}

// WriteFile implements [api.Files].
func (l *live) WriteFile(ctx context.Context, r api.WriteFileRequest) (api.WriteResult, error) {
	return l.write(ctx, "write_file", r.Origin, func(ctx context.Context) (api.WriteResult, error) { return l.Live.WriteFile(ctx, r) })
}

// EditFile implements [api.Files].
func (l *live) EditFile(ctx context.Context, r api.EditFileRequest) (api.WriteResult, error) {
	return l.write(ctx, "edit_file", r.Origin, func(ctx context.Context) (api.WriteResult, error) { return l.Live.EditFile(ctx, r) })
}

func (l *live) write(ctx context.Context, name string, from api.Origin, f func(context.Context) (api.WriteResult, error)) (api.WriteResult, error) {
	ctx, span := l.start(ctx, name, from)
	res, err := f(ctx)
	end(span, err, attribute.Int64("sandbox.step_id", int64(res.Step)), attribute.Int64("sandbox.written_bytes", res.BytesWritten))
	return res, err
}

// List implements [api.Files].
func (l *live) List(ctx context.Context, r api.ListRequest) (api.Listing, error) {
	return call(ctx, l, "list", api.Origin{}, func(ctx context.Context) (api.Listing, error) { return l.Live.List(ctx, r) })
}

// Glob implements [api.Files].
func (l *live) Glob(ctx context.Context, r api.GlobRequest) (api.GlobResult, error) {
	return call(ctx, l, "glob", api.Origin{}, func(ctx context.Context) (api.GlobResult, error) { return l.Live.Glob(ctx, r) })
}

// Grep implements [api.Files].
func (l *live) Grep(ctx context.Context, r api.GrepRequest) (api.GrepResult, error) {
	return call(ctx, l, "grep", api.Origin{}, func(ctx context.Context) (api.GrepResult, error) { return l.Live.Grep(ctx, r) })
}

// Diff implements [api.Service].
func (l *live) Diff(ctx context.Context, r api.StepRequest, w io.Writer) error {
	_, err := call(ctx, l, "diff", api.Origin{}, func(ctx context.Context) (struct{}, error) { return struct{}{}, l.Live.Diff(ctx, r, w) })
	return err
}

// GC implements [api.Service].
func (l *live) GC(ctx context.Context, r api.GCRequest) (undolog.GCResult, error) {
	return call(ctx, l, "gc", api.Origin{}, func(ctx context.Context) (undolog.GCResult, error) { return l.Live.GC(ctx, r) })
}

// Reset implements [api.Manager].
func (l *live) Reset(ctx context.Context) error {
	_, err := call(ctx, l, "reset", api.Origin{}, func(ctx context.Context) (struct{}, error) { return struct{}{}, l.Live.Reset(ctx) })
	return err
}

// Undo implements [api.Service].
func (l *live) Undo(ctx context.Context, r api.UndoRequest) (api.UndoResult, error) {
	return l.apply(ctx, "undo", r.DryRun, func(ctx context.Context) (api.UndoResult, error) { return l.Live.Undo(ctx, r) })
}

// Redo implements [api.Service].
func (l *live) Redo(ctx context.Context, r api.UndoRequest) (api.UndoResult, error) {
	return l.apply(ctx, "redo", r.DryRun, func(ctx context.Context) (api.UndoResult, error) { return l.Live.Redo(ctx, r) })
}

// Restore implements [api.Service].
func (l *live) Restore(ctx context.Context, r api.RestoreRequest) (api.UndoResult, error) {
	return l.apply(ctx, "restore", r.DryRun, func(ctx context.Context) (api.UndoResult, error) { return l.Live.Restore(ctx, r) })
}

func (l *live) apply(ctx context.Context, name string, dry bool, f func(context.Context) (api.UndoResult, error)) (api.UndoResult, error) {
	ctx, span := l.start(ctx, name, api.Origin{}, attribute.Bool("sandbox.dry_run", dry))
	res, err := f(ctx)
	outcome := "completed"
	if err != nil {
		outcome = "failed"
	}
	if !dry {
		l.t.inst.undo.Record(ctx, res.Took.Seconds(), metric.WithAttributes(attribute.String("operation", name), attribute.String("outcome", outcome)))
	}
	end(span, err, attribute.Int("sandbox.steps", len(res.Steps)), attribute.Int("sandbox.paths", res.PathCount))
	return res, err
}

// Close closes the session and ends its span.
func (l *live) Close(ctx context.Context) error {
	err := l.Live.Close(ctx) // all events are delivered then
	l.once.Do(func() {
		l.unsubscribe()
		l.t.inst.sessions.remove(l.Live)
		end(l.span, err)
	})
	return err
}
