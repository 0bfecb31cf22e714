package logctx

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
)

func TestFields(t *testing.T) {
	var out bytes.Buffer
	asked := 0
	log := slog.New(New(slog.NewJSONHandler(&out, nil), Options{Component: "session", Complete: func(f Fields) Fields {
		asked++
		switch f.Step {
		case 0:
			f.Step = 3
		case 7:
			if f.RequestID == "" {
				f.RequestID = "of-7"
			}
		}
		return f
	}}))
	ctx := With(With(t.Context(), Fields{RequestID: "r"}), Fields{Step: 5})
	for _, c := range []struct {
		log                      func()
		component, request, step string
	}{
		{func() { log.Info("x") }, "session", "", "3"},
		{func() { log.InfoContext(ctx, "x") }, "session", "r", "5"},
		{func() { log.InfoContext(ctx, "x", "component", "undo", "step_id", 9) }, "undo", "r", "9"},
		{func() { log.With("component", "undo", "step_id", int64(7)).Info("x") }, "undo", "of-7", "7"},
		{func() { log.With("component", "undo").With("component", "undolog", "x", 1).Info("x") }, "undolog", "", "3"},
		{func() { log.With("component", "undo").Info("x", "component", "files") }, "files", "", "3"},
		{func() { slog.New(New(log.With("component", "undo").Handler(), Options{})).Info("x") }, "undo", "", "3"},
		{func() { log.With("component", "undo").WithGroup("g").Info("x", "y", 1) }, "undo", "", ""},
		{func() { log.With("request_id", "mine").InfoContext(ctx, "x") }, "session", "mine", "5"},
		{func() { log.Info("x", "step_id", "odd") }, "session", "", `"odd"`},
	} {
		out.Reset()
		c.log()
		for _, key := range []string{KeyComponent, KeyRequest, KeyStep} {
			if n := strings.Count(out.String(), `"`+key+`":`); n > 1 {
				t.Errorf("%s occurs %d times: %s", key, n, &out)
			}
		}
		var got struct {
			Component string          `json:"component"`
			Request   string          `json:"request_id"`
			Step      json.RawMessage `json:"step_id"`
		}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got.Component != c.component || got.Request != c.request || string(got.Step) != c.step {
			t.Errorf("got %s, want %s %s %s", &out, c.component, c.request, c.step)
		}
	}
	asked = 0
	out.Reset()
	log.Debug("x")
	log.WithGroup("g").Info("x", "step_id", 1)
	if asked != 0 || strings.Contains(out.String(), "component") {
		t.Errorf("asked %d times, wrote %s", asked, &out)
	}
}

func TestOffIsFree(t *testing.T) {
	log := slog.New(New(slog.DiscardHandler, Options{Component: "x"})).With("component", "undo")
	ctx := With(t.Context(), Fields{Step: 1})
	if n := testing.AllocsPerRun(100, func() {
		if log.Enabled(ctx, slog.LevelDebug) {
			log.DebugContext(ctx, "x", "step_id", 1)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if From(context.Background()) != (Fields{}) {
		t.Error("fields from nowhere")
	}
}
