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

// handler remembers which of the attributes a logger was made with.
type handler struct {
	inner     slog.Handler
	o         Options
	own       Fields
	component bool
	grouped   bool
}

func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.inner.Enabled(ctx, l) }

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if h.grouped { // they would land in the group
		return h.inner.Handle(ctx, r)
	}
	own, component := h.own, h.component
	r.Attrs(func(a slog.Attr) bool {
		note(a, &own, &component)
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
	if !component && h.o.Component != "" {
		r.AddAttrs(slog.String(KeyComponent, h.o.Component))
	}
	if own.Step == 0 && all.Step != 0 {
		r.AddAttrs(slog.Int64(KeyStep, all.Step))
	}
	if own.RequestID == "" && all.RequestID != "" {
		r.AddAttrs(slog.String(KeyRequest, all.RequestID))
	}
	return h.inner.Handle(ctx, r)
}

func note(a slog.Attr, f *Fields, component *bool) {
	switch a.Key {
	case KeyComponent:
		*component = true
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
	c.inner = h.inner.WithAttrs(attrs)
	if !h.grouped {
		for _, a := range attrs {
			note(a, &c.own, &c.component)
		}
	}
	return &c
}

func (h *handler) WithGroup(name string) slog.Handler {
	c := *h
	c.inner, c.grouped = h.inner.WithGroup(name), h.grouped || name != ""
	return &c
}
