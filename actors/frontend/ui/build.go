package ui

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
)

// ImageBuild says which image shall be made.
type ImageBuild struct {
	RootFS bool // with a Debian system
	Force  bool // also where one is there
}

const (
	maxSaid     = 200  // lines of a build's progress that are kept, the newest
	maxSaidLine = 1000 // characters of one
)

// builder makes one image at a time. It goes on while no page is open, and ends with the server.
type builder struct {
	mu     sync.Mutex
	state  BuildState
	cancel context.CancelFunc
	done   chan struct{} // nil: there was none
	ended  bool
}

// BuildState says how the building of an image goes.
type BuildState struct {
	State    string          `json:"state"` // "none", "running", "done", "failed" or "cancelled"
	Started  time.Time       `json:"started_at,omitzero"`
	Ended    time.Time       `json:"ended_at,omitzero"`
	RootFS   bool            `json:"rootfs"`
	Lines    []string        `json:"lines"` // what it said, the newest last
	Result   json.RawMessage `json:"result,omitempty"`
	Problem  string          `json:"problem,omitempty"`
	canceled bool
}

// now is a copy of the state.
func (b *builder) now() BuildState {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.state
	if st.State == "" {
		st.State = "none"
	}
	st.Lines = api.OrEmpty(slices.Clone(st.Lines))
	return st
}

func (b *builder) say(line string) {
	if runes := []rune(line); len(runes) > maxSaidLine {
		line = string(runes[:maxSaidLine]) + "…"
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.state.Lines) >= maxSaid {
		b.state.Lines = slices.Delete(b.state.Lines, 0, len(b.state.Lines)-maxSaid+1)
	}
	b.state.Lines = append(b.state.Lines, line)
}

// stop gives a build up; false if there is none.
func (b *builder) stop() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state.State != "running" {
		return false
	}
	b.state.canceled = true
	b.cancel()
	return true
}

// end gives up what is under way, waits for it, and begins nothing more.
func (b *builder) end() {
	b.stop()
	b.mu.Lock()
	b.ended = true
	done := b.done
	b.mu.Unlock()
	if done != nil {
		<-done
	}
}

// begin makes the image in the background. It returns false if one is being made already.
func (s *Server) begin(what ImageBuild) bool {
	b := &s.build
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state.State == "running" || b.ended {
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.state = BuildState{State: "running", Started: s.o.Clock.Now(), RootFS: what.RootFS}
	b.cancel, b.done = cancel, make(chan struct{})
	go func(done chan struct{}) {
		defer close(done)
		defer cancel()
		result, err := s.o.Sources.BuildImage(ctx, what, func(line string) {
			b.say(line)
			s.hub.tell(change{What: "build"})
		})
		b.mu.Lock()
		b.state.Ended = s.o.Clock.Now()
		switch {
		case b.state.canceled && err != nil:
			b.state.State = "cancelled"
		case err != nil:
			b.state.State, b.state.Problem = "failed", err.Error()
		default:
			b.state.State, b.state.Result = "done", result
		}
		b.mu.Unlock()
		s.hub.tell(change{What: "build"})
	}(b.done)
	return true
}

func (s *Server) buildState(*http.Request) (any, error) { return s.build.now(), nil }

// buildImage begins to make an image.
func (s *Server) buildImage(r *http.Request) (any, error) {
	var in struct {
		RootFS bool `json:"rootfs,omitempty"`
		Force  bool `json:"force,omitempty"`
	}
	if err := decode(r, &in); err != nil {
		return nil, err
	}
	if !s.begin(ImageBuild{RootFS: in.RootFS, Force: in.Force}) {
		return nil, &problem{http.StatusConflict, "busy", "an image is being built already", ""}
	}
	s.hub.tell(change{What: "build"})
	return s.build.now(), nil
}

// cancelBuild gives up what is under way.
func (s *Server) cancelBuild(r *http.Request) (any, error) {
	if err := decode(r, &struct{}{}); err != nil {
		return nil, err
	}
	if !s.build.stop() {
		return nil, &problem{http.StatusConflict, "not_running", "no image is being built", ""}
	}
	return s.build.now(), nil
}
