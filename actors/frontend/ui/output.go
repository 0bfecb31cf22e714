package ui

import (
	"net/http"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
)

// written is what was kept of a command's output, as text.
type written struct {
	Command   string    `json:"command"`
	StartedAt time.Time `json:"started_at"`
	Bytes     int64     `json:"bytes"`
	// LeftOut bytes are missing between Head and Tail.
	LeftOut int64  `json:"left_out,omitempty"`
	Head    string `json:"head"`
	Tail    string `json:"tail"`
}

// output is what the commands of a step wrote. The log bounds it.
func (s *Server) output(r *http.Request) (any, error) {
	id, f, c, err := s.openStep(r)
	if err != nil {
		return nil, err
	}
	defer s.shut(r, c)
	kept, err := c.Output(r.Context(), api.StepRequest{Directory: f.Path, Step: id})
	if err != nil && !older(err) { // an older version keeps none
		return nil, err
	}
	out := make([]written, len(kept))
	for i, o := range kept { // the log is hostile, too
		cut := len(o.Data)
		if o.LeftOut > 0 {
			cut = min(max(o.Cut, 0), cut)
		}
		out[i] = written{frontend.Valid(o.Command), o.StartedAt, o.Bytes, o.LeftOut, frontend.Valid(string(o.Data[:cut])), frontend.Valid(string(o.Data[cut:]))}
	}
	return map[string]any{"commands": out}, nil
}
