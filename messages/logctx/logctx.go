package logctx

import (
	"context"
	"log/slog"
)

// The keys of these attributes.
const (
	KeyComponent = "component"
	KeyRequest   = "request_id"
	KeyStep      = "step_id"
)

// Fields say what a record belongs to; zero fields are unknown.
type Fields struct {
	RequestID string
	Step      int64
}

type key struct{}

// With returns a context whose records get the fields that are set, beside
// those that ctx has.
func With(ctx context.Context, f Fields) context.Context {
	old := From(ctx)
	if f.RequestID == "" {
		f.RequestID = old.RequestID
	}
	if f.Step == 0 {
		f.Step = old.Step
	}
	return context.WithValue(ctx, key{}, f)
}

// From returns the fields of ctx.
func From(ctx context.Context) Fields {
	if ctx == nil {
		return Fields{}
	}
	f, _ := ctx.Value(key{}).(Fields)
	return f
}

// Options are for [New].
type Options struct {
	// Component is for records that name none; empty adds none.
	Component string
	// Complete fills in what is known beyond the record and its context; it is
	// only called for records that are written, and may be nil. It must not
	// block.
	Complete func(Fields) Fields
}

// New returns a handler that adds the fields to what it hands to h.
func New(h slog.Handler, o Options) slog.Handler { return &handler{inner: h, o: o} }

// handler remembers which of the attributes a logger was made with. It keeps the component back until a record is written: of a logger that was
// made from another part's, the innermost names it, once.
type handler struct {
	inner     slog.Handler
	o         Options
	own       Fields
	component string
	grouped   bool
}

func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.inner.Enabled(ctx, l) }

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if h.grouped { // they would land in the group
		return h.inner.Handle(ctx, r)
	}
	own, component := h.own, h.component
	if component == "" {
		component = h.o.Component
	}
	r.Attrs(func(a slog.Attr) bool {
		note(a, &own)
		if a.Key == KeyComponent {
			component = "" // it is there
		}
		return true
	})
	all := own
	if from := From(ctx); all.RequestID == "" || all.Step == 0 {
		if all.RequestID == "" {
			all.RequestID = from.RequestID
		}
		if all.Step == 0 {
			all.Step = from.Step
		}
	}
	if h.o.Complete != nil && (all.RequestID == "" || all.Step == 0) {
		all = h.o.Complete(all)
	}
	r = r.Clone()
	if component != "" {
		r.AddAttrs(slog.String(KeyComponent, component))
	}
	if own.Step == 0 && all.Step != 0 {
		r.AddAttrs(slog.Int64(KeyStep, all.Step))
	}
	if own.RequestID == "" && all.RequestID != "" {
		r.AddAttrs(slog.String(KeyRequest, all.RequestID))
	}
	return h.inner.Handle(ctx, r)
}

func note(a slog.Attr, f *Fields) {
	switch a.Key {
	case KeyRequest:
		f.RequestID = a.Value.String()
	case KeyStep:
		if a.Value.Kind() == slog.KindInt64 {
			f.Step = a.Value.Int64()
		} else {
			f.Step = -1 // there is one, whatever its type
		}
	}
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	if !h.grouped {
		rest := make([]slog.Attr, 0, len(attrs))
		for _, a := range attrs {
			note(a, &c.own)
			if a.Key == KeyComponent {
				c.component = a.Value.String()
				continue
			}
			rest = append(rest, a)
		}
		attrs = rest
	}
	c.inner = h.inner.WithAttrs(attrs)
	return &c
}

func (h *handler) WithGroup(name string) slog.Handler {
	c := *h
	if name != "" && c.component != "" { // it would land in the group
		c.inner, c.component = c.inner.WithAttrs([]slog.Attr{slog.String(KeyComponent, c.component)}), ""
	}
	c.inner, c.grouped = c.inner.WithGroup(name), h.grouped || name != ""
	return &c
}
